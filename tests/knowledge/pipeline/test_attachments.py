"""What is attached to a mail comes in as documents of their own, and goes with the mail."""

import asyncio
from email.message import EmailMessage
from functools import partial

import pytest

from penstock_apps.knowledge.ingest.attachments import attachment_paths
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.bases import Recipe
from penstock_apps.knowledge.store.documents import Document, Labels, NewDocument
from tests.fixtures.until import until
from tests.knowledge.extract.conftest import FILES
from tests.knowledge.scene import Scene, worker_of

VALVES = (FILES / "valves.docx").read_bytes()
FROST = {"frost.txt": b"Drain the casing before frost."}


def mail(attached: dict[str, bytes | EmailMessage], subject: str = "Winter") -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = subject
    message.set_content("Please read what is attached.")
    for name, content in attached.items():
        if isinstance(content, EmailMessage):
            message.add_attachment(content, filename=name)
        else:
            message.add_attachment(
                content, maintype="application", subtype="octet-stream", filename=name
            )
    return message


async def held(library: Library, source: int) -> dict[str, Document]:
    async with library.transaction() as on:
        found = await library.runtime.documents.list(on, library.tenant, source=source)
    return {each.path: each for each in found}


@pytest.mark.parametrize("shared", [False, True], ids=["own model", "shared calls"])
async def test_attachments_are_documents_that_name_their_mail(
    scene: Scene, library: Library, recipe: Recipe, shared: bool
) -> None:
    base = await library.make_base("handbook", recipe if shared else None)
    files = {"in/a.eml": mail({**FROST, "valves.docx": VALVES}).as_bytes()}
    receipt = await scene.add(library, files, base=base, labels=Labels(("post",), {"year": 1}))
    await scene.drain(scheduled=True)
    documents = await held(library, receipt.source)
    assert {path: (each.state, each.kind, each.title) for path, each in documents.items()} == {
        "in/a.eml": ("completed", "email", "Winter"),
        "in/a.eml/frost.txt": ("completed", "text", "frost.txt (attached to Winter)"),
        "in/a.eml/valves.docx": (
            "completed",
            "docx",
            "The valve manual (attached to Winter)",
        ),
    }
    assert {each.batch for each in documents.values()} == {receipt.batch}
    assert [(each.tags, each.metadata) for each in documents.values()] == [
        (["post"], {"year": 1})
    ] * 3
    hit, *_ = await library.search(Query("drain casing frost", k=1))
    assert (hit.path, hit.title) == ("in/a.eml/frost.txt", "frost.txt (attached to Winter)")
    assert (await library.source(receipt.source)).ended_at is not None
    assert (await library.progress(source=receipt.source)).total == 3


async def test_an_attachment_that_is_not_read_says_why(scene: Scene, library: Library) -> None:
    attached = {
        "a.exe": b"MZ\x00\x01",
        "plan.pdf": b"%PDF-1.4 broken",
        "empty.txt": b"",
        "blank.txt": b"\xef\xbb\xbf \n",
        "x.bin": b"\x00\x01\x02",
    }
    receipt = await scene.bring(library, {"a.eml": mail(attached).as_bytes()})
    documents = await held(library, receipt.source)
    assert {path: (each.state, each.reason) for path, each in documents.items()} == {
        "a.eml": ("completed", None),
        "a.eml/a.exe": ("skipped", "unsupported"),
        "a.eml/plan.pdf": ("failed", "broken"),
        "a.eml/empty.txt": ("skipped", "empty"),
        "a.eml/blank.txt": ("skipped", "empty"),
        "a.eml/x.bin": ("skipped", "unsupported"),
    }


async def test_names_that_cannot_be_stored_do_not_fail_their_mail(
    scene: Scene, library: Library
) -> None:
    parts = [
        b'Content-Disposition: attachment; filename="=?utf-8?B?YQBiLnR4dA==?="',
        b"Content-Disposition: attachment; filename*=utf-8''nul%00x.txt",
        b"Content-Type: text/plain; charset*=utf-8''a%00b\n"
        b"Content-Disposition: attachment; filename=c.txt",
        b"Content-Disposition: attachment; filename*=utf-16''%00%d8a%00",
    ]
    bodies = b"".join(b"--x\n%b\n\nWeirs hold water.\n" % part for part in parts)
    content = b"Content-Type: multipart/mixed; boundary=x\n\n%b--x--\n" % bodies
    receipt = await scene.bring(library, {"a.eml": content})
    documents = await held(library, receipt.source)
    states = {path: each.state for path, each in documents.items()}
    paths = ["a.eml", "a.eml/ab.txt", "a.eml/nulx.txt", "a.eml/c.txt", "a.eml/unnamed"]
    assert states == dict.fromkeys(paths, "completed")


async def test_attachments_follow_their_mail(scene: Scene, library: Library) -> None:
    before = {**FROST, "a.txt": b"Weirs hold water.", "b.txt": b"Gates let it go."}
    receipt = await scene.bring(library, {"a.eml": mail(before).as_bytes()})
    first = await held(library, receipt.source)
    after = {**FROST, "a.txt": b"Weirs hold much water.", "c.txt": b"Locks lift ships."}
    await scene.bring(library, {"a.eml": mail(after).as_bytes()})
    second = await held(library, receipt.source)
    assert {path: each.version for path, each in second.items()} == {
        "a.eml": 2,
        "a.eml/frost.txt": 1,
        "a.eml/a.txt": 2,
        "a.eml/c.txt": 1,
    }
    assert second["a.eml/a.txt"].id == first["a.eml/a.txt"].id
    await scene.bring(library, {"a.eml": b""})
    assert {path: each.state for path, each in (await held(library, receipt.source)).items()} == {
        "a.eml": "skipped"
    }


async def test_attachments_are_deleted_with_their_mail(scene: Scene, library: Library) -> None:
    inner = mail(FROST, "Inner")
    receipt = await scene.bring(library, {"a.eml": mail({"inner.eml": inner}).as_bytes()})
    assert len(await held(library, receipt.source)) == 3
    await library.delete_document(receipt.documents[0].id)
    assert await held(library, receipt.source) == {}
    assert await library.search(Query("drain casing frost", k=1)) == []
    await scene.drain()
    left = await scene.left(library.tenant)
    assert not left.keys() & {"document", "passage", "chunk", "object"}


async def test_mails_within_mails_are_read_as_deep_as_is_allowed(
    scene: Scene, library: Library
) -> None:
    message = mail(FROST, "Mail 0")
    for depth in range(1, 4):
        message = mail({"inner.eml": message}, f"Mail {depth}")
    receipt = await scene.bring(library, {"a.eml": message.as_bytes()})
    assert (await held(library, receipt.source)).keys() == {
        "a.eml",
        "a.eml/inner.eml",
        "a.eml/inner.eml/inner.eml",
    }


async def test_attachments_of_one_name_are_all_there(scene: Scene, library: Library) -> None:
    message = mail({"a/b.txt": b"One weir."})
    message.add_attachment("Two weirs.", filename="a_b.txt")
    receipt = await scene.bring(library, {"a.eml": message.as_bytes()})
    assert (await held(library, receipt.source)).keys() == {
        "a.eml",
        "a.eml/a_b.txt",
        "a.eml/a_b (2).txt",
    }


async def test_attachments_beyond_the_quota_do_not_come_in(scene: Scene, library: Library) -> None:
    await library.set_tenant(quotas={"documents": 2})
    content = mail({**FROST, "a.txt": b"Weirs hold water."}).as_bytes()
    receipt = await scene.bring(library, {"a.eml": content})
    [document] = (await held(library, receipt.source)).values()
    assert (document.state, document.reason) == ("failed", "quota")
    assert document.error is not None
    assert "3 documents, but only 2 are allowed" in document.error


@pytest.mark.timeout(300)
async def test_a_worker_brings_attachments_in_before_their_batch_ends(
    scene: Scene, library: Library
) -> None:
    inner = mail(FROST, "Inner").as_bytes()
    receipt = await scene.add(library, {"a.eml": mail({"inner.eml": inner}).as_bytes()})
    async with worker_of(scene.app):
        await scene.ended(library, receipt)
    counts = await library.progress(source=receipt.source)
    assert (counts.total, counts.completed) == (3, 3)
    status = await scene.app.get_batch(receipt.batch)
    assert (status.total, status.completed, status.is_finished) == (3, 3, True)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("plan.pdf", "plan.pdf"),
        (".", "attachment"),
        ("..", "attachment"),
        ("", "attachment"),
        ("\u202e", "attachment"),
        ("../../plan.pdf", ".._.._plan.pdf"),
        ("folder\\plan.pdf", "folder_plan.pdf"),
        ("a\nb\x00\x85.txt", "ab.txt"),
        ("\u202efdp.exe\u202c", "fdp.exe"),
        ("\u2066plan\u2069.pdf", "plan.pdf"),
        ("\udc80.pdf", ".pdf"),
        ("x" * 200 + ".pdf", "x" * 146 + ".pdf"),
    ],
)
def test_names_of_attachments_can_stand_in_paths(name: str, path: str) -> None:
    assert attachment_paths("a.eml", [name]) == [f"a.eml/{path}"]


def test_attachments_without_a_name_are_all_there() -> None:
    assert attachment_paths("a.eml", [".", ".."]) == ["a.eml/attachment", "a.eml/attachment (2)"]


OWN = "The plan of the works, as we keep it."
THEIRS = {"plan.txt": b"The plan of others, as they sent it."}


async def text_of(scene: Scene, document: Document) -> str:
    """The text of the only chunk that is found of a document."""
    text: str = await scene.value(
        "SELECT c.text FROM k.passage AS p JOIN k.chunk AS c ON c.id = p.chunk"
        " WHERE p.document = $1",
        document.id,
    )
    return text


async def test_attachment_does_not_take_the_path_of_an_uploaded_file(
    scene: Scene, library: Library
) -> None:
    receipt = await scene.bring(
        library, {"case.eml/plan.txt": OWN, "case.eml": mail(THEIRS).as_bytes()}
    )
    first = await held(library, receipt.source)
    assert first.keys() == {"case.eml", "case.eml/plan.txt", "case.eml/plan (2).txt"}
    own, theirs = first["case.eml/plan.txt"], first["case.eml/plan (2).txt"]
    assert (own.version, own.title) == (1, None)
    assert await text_of(scene, own) == OWN
    assert theirs.title == "plan (2).txt (attached to Winter)"

    await scene.bring(library, {"case.eml": mail(THEIRS, "Spring").as_bytes()})
    second = await held(library, receipt.source)
    assert {path: each.id for path, each in second.items()} == {
        path: each.id for path, each in first.items()
    }

    await scene.bring(library, {"case.eml": mail({}).as_bytes()})
    assert (await held(library, receipt.source)).keys() == {"case.eml", "case.eml/plan.txt"}
    await scene.bring(library, {"case.eml": b""})
    await library.delete_document(first["case.eml"].id)
    await scene.drain()
    assert (await held(library, receipt.source)).keys() == {"case.eml/plan.txt"}
    assert await text_of(scene, own) == OWN


async def test_attachment_does_not_take_the_path_of_another_mails(
    scene: Scene, library: Library
) -> None:
    inner = mail(THEIRS, "Inner")
    receipt = await scene.bring(library, {"a.eml": mail({"inner.eml": inner}).as_bytes()})
    first = await held(library, receipt.source)
    await scene.bring(library, {"a.eml/inner.eml": mail(THEIRS, "Own").as_bytes()})
    await scene.bring(library, {"a.eml": mail({"inner.eml": inner}, "Again").as_bytes()})
    second = await held(library, receipt.source)
    assert second.keys() == first.keys() | {
        "a.eml/inner (2).eml",
        "a.eml/inner (2).eml/plan.txt",
    }
    await library.delete_document(second["a.eml"].id)
    await scene.drain()
    assert (await held(library, receipt.source)).keys() == {
        "a.eml/inner.eml",
        "a.eml/inner.eml/plan.txt",
    }


@pytest.mark.parametrize("content", [OWN, THEIRS["plan.txt"]], ids=["other", "same"])
async def test_upload_to_an_attachments_path_survives_its_mail(
    scene: Scene, library: Library, content: str | bytes
) -> None:
    receipt = await scene.bring(library, {"case.eml": mail(THEIRS).as_bytes()})
    await scene.bring(library, {"case.eml/plan.txt": content})
    first = await held(library, receipt.source)
    assert first.keys() == {"case.eml", "case.eml/plan.txt"}
    assert first["case.eml/plan.txt"].title is None  # It names no mail any more.

    await scene.bring(library, {"case.eml": mail(THEIRS, "Spring").as_bytes()})
    second = await held(library, receipt.source)
    assert second.keys() == first.keys() | {"case.eml/plan (2).txt"}
    await library.delete_document(second["case.eml"].id)
    await scene.drain()
    left = await held(library, receipt.source)
    assert left.keys() == {"case.eml/plan.txt"}
    text = content if isinstance(content, str) else content.decode()
    assert await text_of(scene, left["case.eml/plan.txt"]) == text


async def test_an_upload_while_the_mail_is_deleted_stays(scene: Scene, library: Library) -> None:
    receipt = await scene.bring(library, {"case.eml": mail(THEIRS).as_bytes()})
    base = await library.base("handbook")
    documents = await held(library, receipt.source)
    [upload] = scene.files({"case.eml/plan.txt": OWN})
    async with library.intake(base, receipt.source) as intake:
        async with library.transaction() as on:
            # As an upload does that has not committed yet.
            await on.execute(
                scene.runtime.tables.statement("lock_source"), library.tenant, receipt.source
            )
            await scene.runtime.documents.put(
                on,
                library.tenant,
                base.id,
                receipt.source,
                intake.batch.id,
                [NewDocument(upload.path, upload.size, upload.digest)],
                Labels(),
            )
            deleting = asyncio.ensure_future(library.delete_document(documents["case.eml"].id))
            await until(partial(waits_for_a_lock, scene), what="a deletion that waits")
        await deleting
    assert (await held(library, receipt.source)).keys() == {"case.eml/plan.txt"}


async def waits_for_a_lock(scene: Scene) -> bool:
    return bool(
        await scene.value(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )
