"""What children import, and from where: threads, broken modules, scripts."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock
from penstock import ConfigError, Penstock, Process
from penstock.isolation import client
from tests.fixtures.database import Database
from tests.isolation import inside, jobs
from tests.isolation.worker import children_of, isolating, reaches, supervisor_of

THREADED = """
import logging, os, threading
from penstock import Process, task

LOCK = threading.Lock()
held = threading.Event()

def keep():
    with LOCK:
        held.set()
        threading.Event().wait()

if os.environ.get("TEST_ISOLATION_OWNER") != str(os.getpid()):
    threading.Thread(target=keep, daemon=True).start()
    held.wait()

@task(name="pid", isolate=True)
def pid() -> int:
    logging.getLogger().warning("from a thread")
    return os.getpid()

@task(name="crash", isolate=Process(deaths=1))
async def crash() -> None:
    os.abort()
"""
SIGNALLED = """
import io, os, signal, sys
from penstock import Process, task

if os.environ["TEST_ISOLATION_OWNER"] != str(os.getpid()):
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    sys.stdout = sys.stderr = io.StringIO()

@task(name="crash", isolate=Process(deaths=1))
async def crash() -> None:
    os.abort()
"""
BROKEN = """
import os
from pathlib import Path
from penstock import task

is_worker = os.environ["TEST_ISOLATION_OWNER"] == str(os.getpid())
if not is_worker and not Path(os.environ["TEST_ISOLATION_FLAG"]).exists():
    {trouble}

@task(name="pid", isolate=True)
def pid() -> int:
    return os.getpid()
"""
SCRIPT = """
import asyncio, os, sys
from penstock import Penstock, Process

app = Penstock(os.environ["TEST_ISOLATION_URL"])

QUEUE = os.environ["TEST_ISOLATION_QUEUE"]

@app.task(name=QUEUE, queue=QUEUE, isolate=Process(deaths=1))
def pid(dies: bool = False) -> int:
    if dies:
        os.abort()
    return os.getpid()

async def main():
    async with app:
        job, dying = await app.enqueue(pid), await app.enqueue(pid, True)
        await app.worker(QUEUE, children=1).drain()
        found = await app.get(dying)
        print(await app.wait(job) != os.getpid(), found.reason)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import what a test writes."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TEST_ISOLATION_OWNER", str(os.getpid()))

    def load(name: str, source: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return import_module(name)

    return load


async def test_a_worker_full_of_threads_has_children_that_work(app: Penstock) -> None:
    """None is forked from it: a lock that one of its threads holds is held in no child."""
    over, lock, held = threading.Event(), threading.Lock(), threading.Event()

    def keep_lock() -> None:
        with lock:
            held.set()
            over.wait()

    def keep_busy() -> None:
        while not over.wait(0.02):
            sum(range(1000))

    threads = [threading.Thread(target=each) for each in (keep_lock, *[keep_busy] * 30)]
    for thread in threads:
        thread.start()
    held.wait()
    try:
        async with isolating(app) as worker:
            pids = [await app.enqueue(jobs.pid) for _ in range(20)]
            deaths = [await app.enqueue(jobs.exits) for _ in range(5)]
            found = {await app.wait(job, timeout=30) for job in pids}
            for job in deaths:
                await reaches(app, job, "failed")
            assert children_of(os.getpid()).count(supervisor_of(worker)) == 1
            assert not found & set(children_of(os.getpid()))
    finally:
        over.set()
        for thread in threads:
            thread.join()


async def test_children_are_not_forked_if_imports_start_threads(
    app: Penstock, module: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    threaded = module("threaded_tasks", THREADED)
    app.include(threaded)
    async with isolating(app):
        crash = await reaches(app, await app.enqueue(threaded.crash), "failed")
        pids = {await app.wait(await app.enqueue(threaded.pid), timeout=30) for _ in range(3)}
    assert "started as new programs instead of being forked" in caplog.text
    assert "from a thread" in caplog.text
    assert os.getpid() not in pids
    assert (crash.reason, crash.errors[0].message[:18]) == ("poison", "Signal 6 (SIGABRT)")
    assert "in crash" in crash.errors[0].traceback


async def test_what_imports_do_to_signals_and_streams_does_not_matter(
    app: Penstock, module: Any
) -> None:
    signalled = module("signalled_tasks", SIGNALLED)
    app.include(signalled)
    async with isolating(app) as worker:
        first = await reaches(app, await app.enqueue(signalled.crash), "failed")
        supervisor = supervisor_of(worker)
        os.kill(supervisor, signal.SIGTERM)
        second = await reaches(app, await app.enqueue(signalled.crash), "failed")
        assert supervisor_of(worker) == supervisor
    assert [each.errors[0].type for each in (first, second)] == ["Killed", "Killed"]


# What cannot begin is tried again soon.
IMPATIENT: dict[str, Any] = {
    "parked": 0.3,
    "child_retries": (0.0,),
    "children_pause": 0.4,
}


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ('raise ImportError("a library is missing")', "a library is missing"),
        (
            "os.register_at_fork(after_in_child=lambda: os._exit(9))",
            "code 9 without a job",
        ),
        ("os._exit(0)", "the supervisor of the child process is gone"),
    ],
    ids=["import", "start", "exit"],
)
async def test_children_that_cannot_begin_park_jobs_until_they_can(
    app: Penstock,
    module: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    told: str,
) -> None:
    flag = tmp_path / "flag"
    monkeypatch.setenv("TEST_ISOLATION_FLAG", str(flag))
    broken = module("broken_tasks", BROKEN.format(trouble=trouble))
    app.include(broken)
    async with isolating(app, **IMPATIENT):
        job = await app.enqueue(broken.pid)
        parked = await reaches(app, job, "scheduled")
        flag.touch()
        assert await app.wait(job, timeout=30) != os.getpid()
    assert (parked.reason, parked.failures) == ("no_process", 0)
    assert told in parked.errors[0].message
    assert (await app.get(job)).failures == 0


async def test_failed_import_is_not_repeated_for_every_job(
    app: Penstock, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_ISOLATION_FLAG", str(tmp_path / "flag"))
    tries = tmp_path / "tries"
    trouble = f"open({str(tries)!r}, 'a').write('x'); raise ImportError('missing')"
    broken = module("forgetful_tasks", BROKEN.format(trouble=trouble))
    app.include(broken)
    async with isolating(app, children_pause=3600.0):
        for _ in range(3):
            parked = await reaches(app, await app.enqueue(broken.pid), "scheduled")
            assert "missing" in parked.errors[0].message
    assert tries.read_text() == "x"


async def test_jobs_wait_while_the_supervisor_cannot_start(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with isolating(app, **IMPATIENT):
        with monkeypatch.context() as patch:
            patch.setattr(client, "module_command", lambda *_: ["/no/such/python"])
            job = await app.enqueue(jobs.pid)
            parked = await reaches(app, job, "scheduled")
        assert await app.wait(job, timeout=30) != os.getpid()
    assert (parked.reason, parked.failures) == ("no_process", 0)
    assert "/no/such/python" in parked.errors[0].message


async def test_scripts_and_modules_that_are_run(database: Database, tmp_path: Path) -> None:
    (tmp_path / "parsing.py").write_text(SCRIPT)
    (tmp_path / "package").mkdir()
    for name in ("__init__", "parsing"):
        (tmp_path / "package" / f"{name}.py").write_text(SCRIPT if name == "parsing" else "")
    sources = str(Path(penstock.__file__).parents[1])
    ran = await asyncio.gather(
        *(
            asyncio.to_thread(
                subprocess.run,
                [sys.executable, *arguments],
                cwd=tmp_path,
                env=os.environ
                | {
                    "TEST_ISOLATION_URL": database.url,
                    "TEST_ISOLATION_QUEUE": arguments[-1],
                    "PYTHONPATH": sources,
                },
                capture_output=True,
                text=True,
                timeout=100,
            )
            for arguments in (["parsing.py"], ["-m", "package.parsing"])
        )
    )
    for each in ran:
        assert each.stdout == "True poison\n", each.stderr


# What cannot be isolated


async def test_a_task_that_a_child_could_not_find_is_refused(app: Penstock) -> None:
    @app.task(isolate=True)
    async def hidden() -> None: ...

    with pytest.raises(ConfigError, match="at the top level of a module, under its own name"):
        await isolating(app).start()


async def test_a_task_that_was_typed_in_is_refused(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def typed() -> None: ...

    main = sys.modules["__main__"]
    monkeypatch.delattr(main, "__file__", raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    typed.__module__, typed.__qualname__ = "__main__", "typed"
    monkeypatch.setattr(main, "typed", app.task(isolate=True)(typed), raising=False)
    with pytest.raises(ConfigError, match="at the top level of a module, under its own name"):
        await isolating(app).start()


async def test_a_resource_that_a_child_could_not_open_is_refused(database: Database) -> None:
    @asynccontextmanager
    async def open_here() -> Any:
        yield inside.Model()

    async with Penstock(database.url, include=[inside.uses_model]) as app:
        app.resource(inside.Model)(open_here)
        with pytest.raises(ConfigError, match="a child process opens the resource Model itself"):
            await isolating(app).start()


@pytest.mark.parametrize(
    "given",
    [
        {"memory": "12"},
        {"memory": "1MB"},
        {"memory": True},
        {"memory": "-5GB"},
        {"retire_above": 5},
        {"time": 0},
        {"time": -1},
        {"time": "60"},
        {"time": float("nan")},
        {"grace": -1},
        {"grace": 21},
        {"deaths": 0},
        {"deaths": True},
        {"retire_after": 0},
        {"retire_after": 2.5},
    ],
)
def test_a_process_says_what_is_allowed(given: dict[str, Any]) -> None:
    [name] = given
    with pytest.raises(ConfigError, match=name):
        Process(**given)
