"""Tenants: on and off, and how much each may have."""

import asyncio

import pytest

from penstock_apps.knowledge.errors import QuotaExceeded, TenantInactive
from penstock_apps.knowledge.ingest.document_job import DocumentJob
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.sources import NewSource
from tests.knowledge.scene import Scene

FOX = "The quick brown fox jumps over the lazy dog."


async def test_nothing_is_taken_in_for_a_tenant_that_is_off(scene: Scene, library: Library) -> None:
    receipt = await scene.add(library, {"a.txt": FOX})
    await library.set_tenant(active=False)
    with pytest.raises(TenantInactive):
        await scene.add(library, {"b.txt": FOX})
    # Neither does what was taken in before.
    await scene.drain()
    assert await scene.value("SELECT count(*) FROM k.chunk") == 0
    job = await scene.app.get(await scene.value("SELECT job FROM k.document"))
    assert (job.state, job.reason) == ("cancelled", "tenant inactive")

    await library.set_tenant(active=True)
    await library.retry(receipt.source)
    await scene.drain()
    assert (await library.progress(source=receipt.source)).completed == 1


async def test_nothing_is_embedded_for_a_deactivated_tenant(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.add(library, {"a.txt": FOX})
    run = DocumentJob.run

    async def late(self: DocumentJob) -> object:
        await library.set_tenant(active=False)
        return await run(self)

    async def never(self: DocumentJob, *args: object) -> object:
        raise AssertionError("It is embedded.")

    monkeypatch.setattr(DocumentJob, "run", late)
    monkeypatch.setattr(DocumentJob, "_embed", never)
    await scene.drain()
    job = await scene.app.get(await scene.value("SELECT job FROM k.document"))
    assert (job.state, job.reason) == ("cancelled", "tenant inactive")


@pytest.mark.parametrize(
    ("quotas", "what"), [({"documents": 1}, "documents"), ({"bytes": 50}, "bytes")]
)
async def test_more_documents_than_allowed_are_refused(
    scene: Scene, library: Library, quotas: dict[str, int], what: str
) -> None:
    await library.set_tenant(quotas=quotas)
    await scene.bring(library, {"a.txt": FOX})
    with pytest.raises(QuotaExceeded, match=what):
        await scene.add(library, {"b.txt": FOX})
    # What is there already is no more of it.
    assert (await scene.add(library, {"a.txt": FOX})).unchanged == 1
    assert (await library.progress()).total == 1

    await library.set_tenant(quotas={})
    await scene.bring(library, {"b.txt": FOX})
    assert (await library.get_tenant()).documents == 2


async def test_two_uploads_at_once_do_not_both_take_the_last_place(
    scene: Scene, library: Library
) -> None:
    await library.make_base("handbook")
    await library.set_tenant(quotas={"documents": 3})
    sources = [NewSource("files", name, key=name) for name in "abcdef"]
    done = await asyncio.gather(
        *(scene.add(library, {"a.txt": FOX + each.name}, source=each) for each in sources),
        return_exceptions=True,
    )
    refused = [each for each in done if isinstance(each, QuotaExceeded)]
    assert len(refused) == 3, done
    assert (await library.get_tenant()).documents == 3


async def test_a_document_that_has_too_many_chunks_fails_with_a_reason(
    scene: Scene, library: Library
) -> None:
    await library.set_tenant(quotas={"tokens": 5})
    receipt = await scene.bring(library, {"a.txt": FOX})
    document = await library.document(receipt.documents[0].id)
    assert (document.state, document.reason) == ("failed", "quota")
    assert "quota" in (document.error or "")
    assert (await library.get_tenant()).tokens == 0


async def test_tenant_at_its_chunk_quota_cannot_add_documents(
    scene: Scene, library: Library
) -> None:
    await library.set_tenant(quotas={"chunks": 1})
    await scene.bring(library, {"a.txt": FOX})
    assert (await library.get_tenant()).chunks == 1
    with pytest.raises(QuotaExceeded, match="chunks"):
        await scene.add(library, {"b.txt": "Bees."})
