"""What is deleted is gone at once, and nothing of it is left."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from penstock.storage.names import object_name
from penstock_apps.knowledge.errors import NotFound, TenantInactive
from penstock_apps.knowledge.ingest.document_job import DocumentJob, Ingested
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance import delete as maintenance_delete
from penstock_apps.knowledge.maintenance.delete import remove, remove_files
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.deletion import Deleted
from penstock_apps.knowledge.store.sources import NewSource
from tests.knowledge.scene import Scene

FOX = "The quick brown fox jumps over the lazy dog."
HEN = "A hen sits on its eggs until they hatch."
OWL = "Owls see well in the dark, and hear better."


def stored(objects: Path) -> int:
    return sum(1 for each in objects.rglob("*") if each.is_file())


async def nothing_left(scene: Scene, tenant: str = "acme") -> None:
    left = await scene.left(tenant)
    assert left.keys() <= {"usage", "base", "edition"}, left
    usage = await scene.rows(
        "SELECT sum(documents) + sum(bytes) + sum(chunks) + sum(tokens) AS n FROM k.usage"
    )
    assert usage[0]["n"] in (0, None)


async def test_a_document_is_gone_at_once_and_the_texts_of_others_stay(
    scene: Scene, library: Library, objects: Path
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX, "same.txt": FOX, "b.txt": HEN})
    by_path = {each.path: each.id for each in receipt.documents}

    await library.delete_document(by_path["a.txt"])
    with pytest.raises(NotFound):
        await library.document(by_path["a.txt"])
    with pytest.raises(NotFound):
        await library.delete_document(by_path["a.txt"])
    assert (await library.progress()).total == 2
    await scene.drain()
    # The other one has the same content: neither its chunk nor its file is touched.
    assert await scene.value("SELECT count(*) FROM k.chunk") == 2
    assert stored(objects) == 2

    await library.delete_document(by_path["same.txt"])
    await scene.drain()
    assert await scene.value("SELECT count(*) FROM k.chunk") == 1
    assert await scene.value("SELECT count(*) FROM k.object") == 1
    assert stored(objects) == 1


async def test_a_path_may_come_back_while_it_is_removed(scene: Scene, library: Library) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX})
    await library.delete_document(receipt.documents[0].id)

    again = await scene.bring(library, {"a.txt": FOX})
    assert again.total == 1
    assert again.documents[0].id != receipt.documents[0].id
    assert (await library.progress(source=again.source)).completed == 1
    assert await scene.value("SELECT count(*) FROM k.document") == 1
    assert await scene.value("SELECT sum(documents) FROM k.usage") == 1


async def delete_source(library: Library, source: int, base: int) -> None:
    await library.delete_source(source)


async def delete_base(library: Library, source: int, base: int) -> None:
    await library.delete_base(base)


async def delete_tenant(library: Library, source: int, base: int) -> None:
    await library.delete_tenant()


Delete = Callable[[Library, int, int], Awaitable[None]]


@pytest.mark.parametrize("delete", [delete_source, delete_base, delete_tenant])
async def test_nothing_is_left_and_jobs_that_waited_are_cancelled(
    scene: Scene, library: Library, objects: Path, delete: Delete
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX, "b.txt": HEN})
    await scene.add(library, {"c.txt": OWL})
    base = await library.base("handbook")
    waiting = await scene.value("SELECT job FROM k.document WHERE state = 'pending'")

    await delete(library, receipt.source, base.id)
    assert (await library.progress()).total == 0
    with pytest.raises(NotFound):
        await library.source(receipt.source)
    with pytest.raises(NotFound):
        await library.document(receipt.documents[0].id)
    async with library.transaction() as on:
        assert not await scene.runtime.documents.list(on, "acme")
    with pytest.raises((NotFound, TenantInactive)):
        await scene.add(library, {"d.txt": FOX}, base=base, source=receipt.source)

    await scene.drain()
    assert (await scene.app.get(waiting)).state == "cancelled"
    await nothing_left(scene)
    if delete is not delete_source:
        left = await scene.left("acme")
        assert not left.keys() & {"base", "edition"}
    if delete is delete_tenant:
        assert await scene.left("acme") == {}
    assert stored(objects) == 0


async def test_what_other_tenants_have_stays(
    scene: Scene, library: Library, knowledge: Knowledge, objects: Path
) -> None:
    other = knowledge.of(scene.runtime, "globex")
    await scene.bring(other, {"a.txt": FOX})
    before = await scene.left("globex")
    await scene.bring(library, {"a.txt": FOX})

    await library.delete_tenant()
    await scene.drain()
    assert await scene.left("globex") == before
    assert stored(objects) == 1


async def test_a_tenant_may_come_back(scene: Scene, library: Library) -> None:
    await scene.bring(library, {"a.txt": FOX})
    await library.delete_tenant()
    with pytest.raises(TenantInactive):
        await library.make_base("again")
    await scene.drain()

    receipt = await scene.bring(library, {"a.txt": FOX})
    assert (await library.progress(source=receipt.source)).completed == 1


async def test_a_removal_that_is_killed_goes_on(
    scene: Scene, library: Library, objects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_delete, "DOCUMENTS_PER_TRANSACTION", 1)
    receipt = await scene.bring(library, {"a.txt": FOX, "b.txt": HEN, "c.txt": OWL})
    await library.delete_source(receipt.source)

    calls = 0
    removed = scene.runtime.removals.remove_documents

    async def dies(*args: object) -> list[bytes]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("killed")
        return await removed(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(
        type(scene.runtime.removals), "remove_documents", lambda _, *args: dies(*args)
    )
    await scene.drain(scheduled=True)
    assert calls == 4
    await nothing_left(scene)
    assert stored(objects) == 0


async def test_a_late_write_is_refused(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document is deleted after its job has begun with it."""
    receipt = await scene.add(library, {"a.txt": FOX})
    run = DocumentJob.run

    async def late(self: DocumentJob) -> Ingested:
        async with scene.runtime.tables.transaction("acme") as on:
            await scene.runtime.removals.mark_documents(on, "acme", [receipt.documents[0].id])
        return await run(self)

    monkeypatch.setattr(DocumentJob, "run", late)
    await scene.drain()
    assert await scene.value("SELECT count(*) FROM k.passage") == 0
    assert await scene.value("SELECT count(*) FROM k.chunk") == 0
    assert await scene.value("SELECT state FROM k.document") != "completed"


async def test_a_file_stays_while_somebody_uploads_the_same(
    scene: Scene, library: Library, runtime: KnowledgeRuntime, objects: Path
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX})
    [file] = scene.files({"a.txt": FOX})
    async with library.transaction() as on:
        await runtime.objects.hold(on, "acme", [(file.digest, "name", 1)])

    await library.delete_source(receipt.source)
    await scene.drain()
    assert stored(objects) == 1
    async with library.transaction() as on:
        await runtime.objects.release(on, "acme", [file.digest])
    assert await remove_files(runtime, "acme", [file.digest]) == 1
    assert stored(objects) == 0


async def test_an_upload_waits_for_a_removal_of_the_same_content(
    scene: Scene,
    library: Library,
    runtime: KnowledgeRuntime,
    objects: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX})
    base = await library.base("handbook")
    await library.delete_source(receipt.source)
    await scene.drain()
    [file] = scene.files({"a.txt": FOX})
    async with library.transaction() as on:
        await runtime.objects.hold(on, "acme", [(file.digest, object_name("acme", file.digest), 1)])
    await runtime.storage.put("acme", file.file, file.digest)
    async with library.transaction() as on:
        await runtime.objects.release(on, "acme", [file.digest])

    reached, go_on = asyncio.Event(), asyncio.Event()
    delete = runtime.storage.delete

    async def slow(names: list[str]) -> None:
        reached.set()
        await go_on.wait()
        await delete(names)

    monkeypatch.setattr(runtime.storage, "delete", slow)
    removal = asyncio.create_task(remove_files(runtime, "acme", [file.digest]))
    await reached.wait()
    source = NewSource("files", "other")
    upload = asyncio.create_task(scene.add(library, {"a.txt": FOX}, base=base, source=source))
    await asyncio.sleep(0.1)
    assert not upload.done()
    go_on.set()
    assert await removal == 1
    await upload
    await scene.drain()
    assert stored(objects) == 1
    assert (await library.progress()).completed == 1


@pytest.mark.parametrize("what", ["document", "source", "base", "tenant"])
async def test_what_is_not_deleted_stays_whatever_job_asks(
    scene: Scene, library: Library, objects: Path, what: Deleted
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX, "b.txt": HEN})
    base = await library.base("handbook")
    async with library.transaction() as on:
        await scene.runtime.publishing.keep_vectors(on, "acme", "a model", {b"a text": np.ones(2)})
    before = await scene.left("acme")
    which = {
        "document": receipt.documents[0].id,
        "source": receipt.source,
        "base": base.id,
        "tenant": None,
    }
    asked = remove.options(tenant="acme").prepare(what, which[what])
    await scene.app.enqueue_many([asked])
    await scene.drain()
    assert await scene.left("acme") == before
    assert stored(objects) == 2
    counts = await library.progress(source=receipt.source)
    assert (counts.total, counts.completed) == (2, 2)
