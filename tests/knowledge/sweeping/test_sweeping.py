"""What is left behind is put in order."""

import asyncio
import os
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.storage.names import DATABASES_FOLDER, object_name
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance.sweep import KnowledgeSweeper, Walked, sweep, sweep_storage
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.knowledge.scene import Scene, worker_of

FOX = "The quick brown fox jumps over the lazy dog."
HEN = "A hen sits on its eggs until they hatch."


def stored(objects: Path) -> int:
    return sum(1 for each in objects.rglob("*") if each.is_file())


async def test_a_sweep_runs_as_a_job(scene: Scene, library: Library) -> None:
    await scene.bring(library, {"a.txt": FOX})
    job = await scene.app.enqueue(sweep)
    await scene.drain()
    assert (await scene.app.get(job)).state == "completed"
    assert await scene.value("SELECT count(*) FROM k.tally_change") == 0
    assert (await library.progress()).completed == 1


async def test_raw_files_go_after_their_time_and_the_text_stays(
    scene: Scene, library: Library, runtime: KnowledgeRuntime, objects: Path
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX})
    await scene.add(library, {"b.txt": HEN})
    old = (
        "UPDATE k.object SET created_at = created_at - interval '8 days', held_until = '-infinity'"
    )
    await scene.rows(old)

    await library.set_tenant(raw_days=30)
    assert await KnowledgeSweeper(runtime).expired_files() == 0
    await library.set_tenant(raw_days=None)
    # What waits to be read stays.
    assert await KnowledgeSweeper(runtime).expired_files() == 1
    assert stored(objects) == 1
    document = await library.document(receipt.documents[0].id)
    assert (document.state, document.stored, document.chunks) == ("completed", False, 1)
    assert await scene.value("SELECT count(*) FROM k.passage") == 1

    # The same content again is stored again, and nothing else has to be done.
    again = await scene.bring(library, {"a.txt": FOX})
    assert again.unchanged == 1
    assert await scene.value("SELECT count(*) FROM k.object") == 2


async def test_files_of_a_broken_upload_go_when_their_hold_is_over(
    scene: Scene, library: Library, runtime: KnowledgeRuntime, objects: Path
) -> None:
    [file] = scene.files({"a.txt": FOX})
    name = await runtime.storage.put("acme", file.file, file.digest)
    async with library.transaction() as on:
        await runtime.objects.hold(on, "acme", [(file.digest, name, file.size)])
    assert await KnowledgeSweeper(runtime).orphans() == 0

    await scene.rows("UPDATE k.object SET held_until = now() - interval '1 second'")
    assert await KnowledgeSweeper(runtime).orphans() == 1
    assert stored(objects) == 0
    assert await scene.left("acme") == {}


async def test_a_content_that_was_replaced_goes(
    scene: Scene, library: Library, runtime: KnowledgeRuntime, objects: Path
) -> None:
    await scene.bring(library, {"a.txt": FOX})
    await scene.bring(library, {"a.txt": HEN})
    await until(lambda: KnowledgeSweeper(runtime).orphans(), what="the old content to be found")
    assert stored(objects) == 1


HOUR = 3600
DAY = 24 * HOUR


def all_in(objects: Path) -> set[Path]:
    return {
        each for each in objects.rglob("*") if each.is_file() and DATABASES_FOLDER not in str(each)
    }


def made_old(path: Path, seconds: float) -> Path:
    os.utime(path, (then := time.time() - seconds, then))
    return path


def left_by_crash(objects: Path, name: str, seconds: float) -> Path:
    """A file that has stood in the storage for a time, and that no row tells of."""
    path = objects / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left")
    return made_old(path, seconds)


async def test_walk_through_storage_removes_what_crash_has_left(
    scene: Scene, library: Library, objects: Path
) -> None:
    await scene.bring(library, {"a.txt": FOX})
    kept = {made_old(each, 40 * DAY) for each in all_in(objects)}
    digest = sha256(b"left").digest()
    stray = object_name("acme", digest)
    left_by_crash(objects, object_name("a/B", digest), 31 * DAY)
    left_by_crash(objects, f"{stray}.part-0123456789abcdef", 2 * HOUR)
    kept.add(left_by_crash(objects, f"{stray}.part-fedcba9876543210", HOUR / 2))
    kept.add(left_by_crash(objects, stray, 29 * DAY))
    kept.add(left_by_crash(objects, "backup/of/something.tar", 40 * DAY))

    job = await scene.app.enqueue(sweep_storage)
    await scene.drain()
    assert (await scene.app.get(job)).result == {"files": 1, "parts": 1}
    assert all_in(objects) == kept
    assert await scene.left("a/B") == {}


async def test_walk_leaves_files_that_may_be_those_of_another_database(
    scene: Scene, runtime: KnowledgeRuntime, objects: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stray = object_name("acme", sha256(b"left").digest())
    kept = left_by_crash(objects, stray, 40 * DAY)
    left_by_crash(objects, f"{stray}.part-0123456789abcdef", 2 * HOUR)
    await runtime.storage.register_database("another database")
    [others] = (objects / DATABASES_FOLDER).iterdir()

    assert await KnowledgeSweeper(runtime).storage() == Walked(0, 1)
    assert all_in(objects) == {kept}
    assert await scene.value("SELECT count(*) FROM k.object") == 0
    assert len(list((objects / DATABASES_FOLDER).iterdir())) == 2
    assert f"remove its marker: {DATABASES_FOLDER}/{others.name}" in caplog.text

    others.unlink()
    assert await KnowledgeSweeper(runtime).storage() == Walked(1, 0)
    assert all_in(objects) == set()


async def test_database_does_not_end_what_slow_storage_holds_up(
    scene: Scene, library: Library, knowledge_database: Database, objects: Path
) -> None:
    await scene.bring(library, {"a.txt": FOX})
    async with connected(knowledge_database.admin_url) as admin:
        await admin.execute(
            f"ALTER DATABASE {knowledge_database.name} SET idle_in_transaction_session_timeout = 50"
        )
    async with Penstock(knowledge_database.url) as app, Knowledge(app).opened() as runtime:
        delete = runtime.storage.delete

        async def delete_slowly(names: Sequence[str]) -> None:
            if names:
                await asyncio.sleep(0.5)
            await delete(names)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime.storage, "delete", delete_slowly)
            await scene.rows(
                "UPDATE k.object SET held_until = '-infinity', created_at = '2000-01-01'"
            )
            assert await KnowledgeSweeper(runtime).expired_files() == 1
            await scene.add(library, {"b.txt": HEN})
            await scene.rows("DELETE FROM k.document")
            assert await KnowledgeSweeper(runtime).orphans() == 1
    assert all_in(objects) == set()


async def test_copy_of_a_database_has_another_name(
    scene: Scene, runtime: KnowledgeRuntime, knowledge_template: Database
) -> None:
    sweeps = runtime.sweeps
    async with runtime.tables.transaction_of_all() as on:
        own = await sweeps.name_database(on)
        assert own == await sweeps.name_database(on)
    async with connected(knowledge_template.url) as copied_from:
        assert await sweeps.name_database(copied_from) != own


async def test_walk_through_storage_is_scheduled(app: Penstock) -> None:
    assert {each.request.task for each in app.timetable} == {sweep.name, sweep_storage.name}


async def test_file_that_is_needed_and_has_no_row_gets_it_back(
    scene: Scene, library: Library, runtime: KnowledgeRuntime, objects: Path
) -> None:
    await scene.bring(library, {"a.txt": FOX})
    await scene.rows("DELETE FROM k.object")
    kept = {made_old(each, 40 * DAY) for each in all_in(objects)}
    assert await KnowledgeSweeper(runtime).storage() == Walked(0, 0)
    assert all_in(objects) == kept
    assert await scene.value("SELECT count(*) FROM k.object") == 1


async def test_chunks_drafts_and_vectors_that_nobody_needs_go(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    await scene.bring(library, {"a.txt": FOX})
    await scene.rows("DELETE FROM k.passage")
    await scene.rows(
        "INSERT INTO k.vector (tenant, embedder, hash, embedding, made_at)"
        " SELECT tenant, 'x', hash, embedding, now() - interval '2 days' FROM k.chunk"
    )
    await scene.rows(
        "INSERT INTO k.draft (tenant, document, edition, version, attempt, position, hash, tokens,"
        " heading, text) SELECT tenant, 0, edition, 1, 1, 1, hash, 1, '', '' FROM k.chunk"
    )
    assert await KnowledgeSweeper(runtime).rows() == 3
    assert not (await scene.left("acme")).keys() & {"chunk", "vector", "draft"}


async def test_sweep_closes_a_batch_that_was_left_open(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    base = await library.make_base("handbook")
    receipt = await scene.add(library, {"a.txt": FOX}, base=base)
    batch = await library.client.open_batch("knowledge", tenant="acme")
    await scene.rows("UPDATE k.source SET batch = $1, ended_at = NULL", batch.id)
    assert await KnowledgeSweeper(runtime).close_batches() == 0

    await scene.rows("UPDATE penstock.batch SET created_at = now() - interval '2 hours'")
    assert await KnowledgeSweeper(runtime).close_batches() == 1
    assert (await scene.app.get_batch(batch.id)).state != "open"
    assert receipt.total == 1


async def test_a_document_whose_job_ended_without_telling_is_settled(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    receipt = await scene.add(library, {"a.txt": FOX, "b.txt": HEN})
    [job, other] = [
        each["job"] for each in await scene.rows("SELECT job FROM k.document ORDER BY id")
    ]
    await scene.app.cancel(job)
    await scene.app.cancel(other)
    await scene.app.delete(other)
    await scene.rows("UPDATE k.document SET updated_at = now() - interval '1 hour'")

    assert await KnowledgeSweeper(runtime).settle() == 2
    counts = await library.progress(source=receipt.source)
    assert (counts.cancelled, counts.failed) == (1, 1)


async def test_a_removal_that_gave_up_is_taken_up_again(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    receipt = await scene.bring(library, {"a.txt": FOX})
    async with library.transaction() as on:
        await runtime.removals.mark_source(on, "acme", receipt.source)
    assert await KnowledgeSweeper(runtime).resume() == 0
    await scene.rows("UPDATE k.source SET deleted_at = now() - interval '1 hour'")
    assert await KnowledgeSweeper(runtime).resume() == 1
    await scene.drain()
    assert not (await scene.left("acme")).keys() & {"source", "document", "chunk"}


async def test_a_document_whose_child_process_dies_is_told_at_once(
    scene: Scene, library: Library
) -> None:
    receipt = await scene.add(library, {"a.txt": FOX})
    job = await scene.value("SELECT job FROM k.document")
    # It has no attempt left, so that the first failure is the last.
    await scene.rows("UPDATE penstock.job SET max_attempts = 1 WHERE id = $1", int(job))
    await scene.rows('UPDATE k.edition SET settings = \'{"embedding": {"provider": 1}}\'')
    async with worker_of(scene.app):

        async def failed() -> bool:
            return (await library.progress(source=receipt.source)).failed == 1

        await until(failed, 90, what="the document to fail")
        document = await library.document(receipt.documents[0].id)
    # What went wrong inside is for who runs the service: the job has it.
    assert document.error is not None
    assert document.error.endswith(f"(job {job}).")
