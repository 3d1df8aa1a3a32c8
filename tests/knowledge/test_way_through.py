"""Files become documents, documents jobs, jobs chunks."""

from penstock_apps.knowledge.library import Library
from tests.knowledge.scene import Scene, worker_of

TEXTS = {"a.txt": "The quick brown fox.", "b.txt": "Jumps over the lazy dog."}


async def test_files_come_in(scene: Scene, library: Library) -> None:
    receipt = await scene.bring(library, TEXTS)

    counts = await library.progress(source=receipt.source)
    assert (counts.total, counts.completed, counts.state) == (2, 2, "completed")
    left = await scene.left("acme")
    assert (left["document"], left["chunk"], left["passage"], left["object"]) == (2, 2, 2, 2)


async def test_a_worker_brings_them_in_by_child_processes(scene: Scene, library: Library) -> None:
    receipt = await scene.add(library, TEXTS)
    async with worker_of(scene.app):
        await scene.ended(library, receipt)

    assert (await library.progress(source=receipt.source)).completed == 2
