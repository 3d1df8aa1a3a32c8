"""The blocking client: scripts, threads, forked processes."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.errors import JobCancelled, JobNotFound, SchemaMissing
from tests.fixtures.app import calls_under_way
from tests.fixtures.database import Database
from tests.fixtures.notifications import hearing
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of


def app_at(url: str) -> Penstock:
    app = Penstock(url)

    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    return app


@pytest.fixture
def script(database: Database, tmp_path: Path):
    """Runs a script of a few lines in a process of its own; what it printed."""

    def run(text: str, **environment: str) -> str:
        head = "import os\nfrom penstock import Penstock\napp = Penstock()\n"
        head += "@app.task(name='greet')\ndef greet(name: str) -> str:\n    return name\n"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", head + text],
            env=os.environ | (environment or {"PENSTOCK_DATABASE_URL": database.url}),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout.strip()

    return run


async def test_a_script_enqueues_and_looks_without_a_loop(database: Database) -> None:
    def blocking() -> None:
        app = app_at(database.url)
        greet = app.tasks.get("greet")
        with app.sync as jobs:
            job = jobs.enqueue(greet, "Ada")
            many = jobs.enqueue_many(greet.prepare(name) for name in ("Bob", "Eve"))
            assert jobs.get(job).state == "ready"
            assert {each.id for each in jobs.list().jobs} == {job.id, *(one.id for one in many)}
            assert jobs.cancel(job)
            jobs.retry(job)
            jobs.delete(job)
            with pytest.raises(JobNotFound):
                jobs.get(job)
            jobs.pause("default")
            assert jobs.paused() == ["default"]

    await asyncio.to_thread(blocking)


async def test_a_thread_uses_the_loop_that_the_app_is_open_in(app: Penstock) -> None:
    @app.task
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    before = threading.active_count()

    def blocking() -> str:
        job = app.sync.enqueue(greet, "Ada")
        assert "penstock sync" not in {thread.name for thread in threading.enumerate()}
        return app.sync.wait(job, timeout=30)

    async with worker_of(app):
        assert await asyncio.to_thread(blocking) == "Hello, Ada"
    await asyncio.to_thread(app.sync.close)
    assert await app.list()  # it is open all the same
    assert threading.active_count() >= before


async def test_many_threads_share_one_app(database: Database) -> None:
    app = app_at(database.url)
    greet = app.tasks.get("greet")

    def blocking() -> None:
        with app.sync as jobs, ThreadPoolExecutor(8) as threads:
            ids = set(threads.map(lambda n: jobs.enqueue(greet, str(n)).id, range(100)))
            assert len(ids) == 100

    await asyncio.to_thread(blocking)


async def test_on_a_loop_it_says_to_await_instead(app: Penstock) -> None:
    @app.task
    async def greet() -> None: ...

    with pytest.raises(RuntimeError, match="Await the same call"):
        app.sync.enqueue(greet)


async def test_it_can_be_opened_again_after_it_was_closed(database: Database) -> None:
    def blocking() -> None:
        app = app_at(database.url)
        for stored in (1, 2):
            with app.sync as jobs:
                jobs.enqueue(app.tasks.get("greet"), "Ada")
                assert len(jobs.list().jobs) == stored
            assert "penstock sync" not in {thread.name for thread in threading.enumerate()}

    await asyncio.to_thread(blocking)


async def test_a_script_that_just_ends_leaves_its_jobs_and_no_noise(script, app: Penstock) -> None:
    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    async with worker_of(app, rescan=3600, poll=3600):
        last = await asyncio.to_thread(
            script,
            "ids = [app.sync.enqueue(greet, str(n)).id for n in range(20)]\nprint(ids[-1])",
        )
        assert await app.wait(last, timeout=30) == "Hello, 19"


async def test_a_forked_child_gets_connections_of_its_own(script, app: Penstock) -> None:
    printed = await asyncio.to_thread(
        script,
        """
app.sync.enqueue(greet, "parent")
child = os.fork()
if not child:
    app.sync.enqueue(greet, "child")
    app.sync.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
app.sync.enqueue(greet, "parent again")
print([job.args["name"] for job in app.sync.list().jobs])
app.sync.close()
""",
    )
    assert printed == "['parent again', 'child', 'parent']"


@pytest.mark.parametrize(
    "enqueues",
    ["app.sync.enqueue(job, 'child')", "asyncio.run(app.enqueue(job, 'child'))"],
    ids=["blocking", "async"],
)
async def test_child_forked_while_its_parent_enqueues_wakes_workers(
    script, database: Database, enqueues: str
) -> None:
    text = f"""
import asyncio, atexit, multiprocessing, warnings

warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python 3.12 warns of threads.

def child():
    job = greet.options(queue="of-child")
    {enqueues}
    atexit._run_exitfuncs()  # as multiprocessing does it from Python 3.13 on

async def main():
    async with app:
        while app._wake._task is None:
            await app.enqueue(greet, "parent")
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        await asyncio.to_thread(process.join)
        print(process.exitcode, await app.enqueue(greet, "parent again") is not None)

asyncio.run(main())
"""
    async with hearing(database) as heard:
        assert await asyncio.to_thread(script, text) == "0 True"
        assert "of-child" in {json.loads(payload)[0] for payload in await heard.all(1)}


async def test_it_migrates_and_says_what_is_missing(database: Database) -> None:
    def blocking() -> None:
        app = Penstock(database.url, schema="other")
        with pytest.raises(SchemaMissing):
            app.sync.open()
        app.sync.close()
        assert app.sync.migrate()
        app.sync.open()
        app.sync.close()

    await asyncio.to_thread(blocking)


async def test_it_starts_the_embedded_server_and_releases_it(script, tmp_path: Path) -> None:
    text = "print(app.sync.get(app.sync.enqueue(greet, 'Ada')).state)"
    for _ in range(2):
        printed = await asyncio.to_thread(script, text, PENSTOCK_DATA_DIR=str(tmp_path / "data"))
        assert printed == "ready"
    assert not (tmp_path / "data" / "postmaster.pid").exists()


def test_async_code_takes_the_app_over_from_idle_blocking_code(database: Database) -> None:
    app = app_at(database.url)
    greet = app.tasks.get("greet")
    first = app.sync.enqueue(greet, "Ada")

    async def main() -> list[str]:
        async with app:
            many = await asyncio.gather(*(app.enqueue(greet, name) for name in "abc"))
            shared = await asyncio.to_thread(app.sync.enqueue, greet, "Bob")
            return [(await app.get(job)).id for job in (first, shared, *many)]

    assert len(set(asyncio.run(main()))) == 5
    app.sync.get(first)
    app.sync.close()


def test_many_coroutines_take_the_app_over_at_once(database: Database) -> None:
    app = app_at(database.url)
    app.sync.open()

    async def main() -> None:
        assert await asyncio.gather(*(app.paused() for _ in range(20))) == [[]] * 20
        assert "penstock sync" not in {thread.name for thread in threading.enumerate()}
        await app.close()

    asyncio.run(main())


async def test_a_call_that_is_under_way_is_not_broken_off(database: Database) -> None:
    app = app_at(database.url)
    job = await asyncio.to_thread(app.sync.enqueue, app.tasks.get("greet"), "Ada")
    waiting = asyncio.create_task(asyncio.to_thread(app.sync.wait, job))
    try:
        await until(lambda: calls_under_way(app) == 1)
        with pytest.raises(RuntimeError, match=r"app\.sync\.close\(\)"):
            await app.get(job)
    finally:
        await asyncio.to_thread(app.sync.cancel, job)
        with pytest.raises(JobCancelled):
            await waiting
    assert (await app.get(job)).state == "cancelled"
    await app.close()
