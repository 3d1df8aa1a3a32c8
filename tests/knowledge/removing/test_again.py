"""Retry only what failed; end what is still to come."""

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.sources import NewSource
from tests.knowledge.scene import Scene, worker_of

FOX = "The quick brown fox jumps over the lazy dog."


async def test_only_what_failed_is_retried(scene: Scene, library: Library) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX, "b.pdf": b"%PDF-1.4 broken"})
    counts = await library.progress(source=receipt.source)
    assert (counts.completed, counts.failed, counts.state) == (1, 1, "partial")

    again = await library.retry(receipt.source)
    assert [each.path for each in again.documents] == ["b.pdf"]
    counts = await library.progress(source=receipt.source)
    assert (counts.total, counts.completed, counts.pending) == (2, 1, 1)
    await scene.drain()
    counts = await library.progress(source=receipt.source)
    assert (counts.total, counts.completed, counts.failed) == (2, 1, 1)
    status = await scene.app.get_batch(again.batch)
    assert (status.total, status.is_finished) == (1, True)


async def test_a_retry_without_failures_brings_nothing(scene: Scene, library: Library) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX})
    assert (await library.retry(receipt.source)).total == 0
    async with worker_of(scene.app):  # It leads, and sees that a batch has ended without a job.
        await scene.ended(library, receipt)


async def test_what_is_still_to_come_is_cancelled_and_can_be_retried(
    scene: Scene, library: Library
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX})
    await scene.add(library, {"b.txt": "Bees.", "c.txt": "Cats."})

    assert await library.cancel(receipt.source) == 2
    counts = await library.progress(source=receipt.source)
    assert (counts.completed, counts.cancelled, counts.pending) == (1, 2, 0)
    async with worker_of(scene.app):  # It leads, and sees that a batch has ended without a job.
        await scene.ended(library, receipt)

    assert (await library.retry(receipt.source)).total == 2
    await scene.drain()
    assert (await library.progress(source=receipt.source)).completed == 3


async def test_retried_documents_keep_the_priority_of_their_upload(
    scene: Scene, library: Library
) -> None:
    base = await library.make_base("handbook")
    folder = NewSource("files", "folder", key="folder")
    for name, priority in (("urgent.pdf", 50), ("idle.pdf", -7)):
        async with library.intake(base, folder, priority=priority) as intake:
            await intake.add(scene.files({name: b"%PDF-1.4 broken"}))
    await scene.drain()

    for _ in range(2):
        again = await library.retry(intake.source.id)
        priorities = {
            each.path: (await scene.app.get((await library.document(each.id)).job or "")).priority
            for each in again.documents
        }
        assert priorities == {"urgent.pdf": 50, "idle.pdf": -7}
        await scene.drain()
