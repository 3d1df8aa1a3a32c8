"""What handlers can do, they can do from inside a child process."""

import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from penstock import Database as Settings
from penstock import JobFailed, JobLog, Penstock, Workflow, task
from penstock.worker.children.main import ChildResources
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.isolation import inside, jobs
from tests.isolation.worker import isolating, reaches

HARDLY = 1e-6  # a rate at which nothing comes in


@pytest.fixture
async def app(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Penstock]:
    monkeypatch.setenv(inside.URL, database.url)
    monkeypatch.setenv(inside.FOLDER, str(tmp_path))
    async with Penstock(database.url, include=inside.TASKS) as app:
        app.resource(inside.Model)(inside.open_model)
        app.resource(inside.Broken)(inside.open_broken)
        app.resource(inside.Whereabouts)(inside.open_whereabouts)
        yield app


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def lines(notes: Path) -> list[str]:
    return notes.read_text().splitlines()


async def test_progress_logs_results_and_what_is_enqueued(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with isolating(app):
        telling = await app.enqueue(inside.tells)
        results = {kind: await app.enqueue(inside.returns, kind) for kind in ("none", "large")}
        odd = await app.enqueue(inside.returns, "odd")
        outside = [await app.enqueue(each) for each in (inside.enqueues, inside.enqueues_in_thread)]
        assert await app.wait(results["none"], timeout=30) is None
        assert await app.wait(results["large"], timeout=30) == "x" * 10**6
        assert await app.wait(odd, timeout=30) == repr(object)
        added = [await app.wait(job, timeout=30) for job in outside]
        assert [await app.wait(job, timeout=30) for job in added] == [10, 11]
        await app.wait(telling, timeout=30)
        told = (await app.states([telling]))[telling.id]
    assert (told.done, told.total, told.message) == (1000, 1000, "row 1000")
    said, plain, caught = [each for each in caplog.records if "inside.py" in each.pathname]
    assert said.getMessage() == f"[{inside.tells.name} {telling.id}#1] from inside"
    assert (vars(said)["job_id"], vars(said)["attempt"]) == (telling.id, 1)
    assert (vars(said)["colour"], said.filename, said.levelname) == ("blue", "inside.py", "INFO")
    assert (plain.name, plain.getMessage(), plain.funcName) == (
        "tests.isolation",
        "plain 1",
        "tells",
    )
    assert "ValueError: what went wrong" in caught.getMessage()


async def test_what_is_logged_of_an_end_is_as_the_worker_is_set(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.worker")
    app.include(jobs.dies_or_raises)
    async with isolating(app, log=JobLog(tracebacks=True)):
        failing = await app.enqueue(jobs.dies_or_raises.options(max_attempts=1), [])
        with pytest.raises(JobFailed):
            await app.wait(failing, timeout=30)
        fine = await app.enqueue(inside.returns, "none")
        await app.wait(fine, timeout=30)
    told = [each.getMessage() for each in caplog.records if each.name == "penstock.worker"]
    [failure] = [line for line in told if "failed for good" in line]
    assert "ValueError: not yet\nTraceback (most recent call last):" in failure
    [completed] = [line for line in told if "completed in" in line]
    assert completed.startswith(f"{inside.returns.name} (job {fine.id}, attempt 1) completed in ")


async def test_what_is_told_may_be_no_text(app: Penstock, caplog: pytest.LogCaptureFixture) -> None:
    async with isolating(app):
        job = await app.enqueue(inside.tells_oddly)
        await app.wait(job, timeout=30)
        told = (await app.states([job]))[job.id]
    assert (told.done, told.message) == (2, "caf\ufffd.pdf")
    [said] = [each for each in caplog.records if "inside.py" in each.pathname]
    assert said.getMessage() == "read caf?.pdf"
    assert (vars(said)["path"], vars(said)["size"]) == ("caf?.pdf", str(2**70))


async def test_budgets(app: Penstock, connection: asyncpg.Connection) -> None:
    await app.set_limit("tokens", rate=HARDLY, burst=100)
    await app.set_limit("other", rate=1)
    await app.set_limit("api", rate=1000)
    async with isolating(app):
        await app.wait(await app.enqueue(inside.spends), timeout=30)
        await app.wait(await app.enqueue(inside.spends_in_thread), timeout=30)
        waiting = await reaches(app, await app.enqueue(inside.spends_too_much), "scheduled")
        refused = await reaches(app, await app.enqueue(inside.is_refused), "scheduled")
    assert (waiting.reason, waiting.failures) == ("budget:tokens", 0)
    assert (refused.failures, refused.errors) == (0, ())
    rows = await connection.fetch(
        "SELECT key, level, closed_until > clock_timestamp() AS closed FROM penstock.bucket"
    )
    buckets = {row["key"]: row for row in rows}
    assert buckets["tokens"]["level"] == pytest.approx(70, abs=0.1)
    assert {key for key, row in buckets.items() if row["closed"]} == {"other", "api"}


async def test_steps_waits_and_workflows(app: Penstock, notes: Path) -> None:
    flow = Workflow()
    first = flow.add(inside.split.prepare(), name="split")
    flow.add(inside.merge.prepare(), name="merge", after=first)
    async with isolating(app):
        started = await app.start_workflow(flow)
        stepping = [await app.enqueue(each) for each in (inside.steps, inside.steps_in_thread)]
        waiting = [
            await app.enqueue(each) for each in (inside.waits_for_all, inside.waits_in_thread)
        ]
        doubled = await reaches(app, await app.enqueue(inside.twice), "failed")
        for job in waiting:
            await reaches(app, job, "blocked")
            await app.send_event(f"event of {job.id}", {"job": job.id})
        assert [await app.wait(job, timeout=30) for job in stepping] == [[8, 10], [12, 15]]
        events = [await app.wait(job, timeout=30) for job in waiting]
        assert await app.wait(started["split"], timeout=30) == ["part 1", "part 2"]
        merged = await app.wait(started["merge"], timeout=30)
    assert events == [[{"job": waiting[0].id}, "there"], {"job": waiting[1].id}]
    assert merged == {"split": ["part 1", "part 2"], "part 1": 1, "part 2": 2}
    assert doubled.errors[0].type == "penstock.errors.DuplicateStep"
    done = sorted(lines(notes))
    assert done == ["double 1", "double 4", "double 5", "look", "look", "triple 4", "triple 5"]


async def test_leftovers_of_a_handler_do_not_reach_the_next_job(
    app: Penstock, tmp_path: Path, connection: asyncpg.Connection
) -> None:
    gate = str(tmp_path / "gate")
    async with isolating(app, children=1):
        first = await app.enqueue(inside.leaves_a_task_behind, gate)
        await app.wait(first, timeout=30)
        second = await app.enqueue(inside.has_no_steps, gate)
        told = await app.wait(second, timeout=30)
        states = await app.states([second])
    assert told == f"stale {first.id}\n"
    assert await connection.fetchval("SELECT count(*) FROM penstock.step") == 0
    assert states[second.id].message is None


async def test_raising_log_filter_loses_one_line_only(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise ValueError("a filter of the user's")

    caplog.set_level(logging.INFO)
    quiet = logging.getLogger("tests.isolation")
    quiet.addFilter(refuse)
    try:
        async with isolating(app):
            await app.wait(await app.enqueue(inside.tells), timeout=30)
    finally:
        quiet.removeFilter(refuse)
    assert "a filter of the user's" in caplog.text


async def test_a_transaction_of_the_childs_own(app: Penstock) -> None:
    async with isolating(app):
        done = await app.enqueue(inside.completes)
        result = await app.wait(done, timeout=30)
        undone = await reaches(app, await app.enqueue(inside.rolls_back), "failed")
    assert result["by"] != os.getpid()
    assert (await app.get(done)).errors == ()
    assert undone.errors[0].type == "NotCommitted"


async def test_resources_are_the_childs_own(app: Penstock, notes: Path) -> None:
    @task(name=inside.takes.name)
    async def before(number: str) -> None: ...

    async with isolating(app, children=1):
        parked = await reaches(app, await app.enqueue(inside.uses_broken), "scheduled")
        unfit = await reaches(app, await app.enqueue(before, "three"), "scheduled")
        pids = {await app.wait(await app.enqueue(inside.uses_model), timeout=30) for _ in range(3)}
    assert (parked.reason, parked.failures) == ("missing_resource", 0)
    assert "Broken" in parked.errors[0].message
    assert (unfit.reason, unfit.failures) == ("bad_arguments", 0)
    [pid] = pids
    assert pid != os.getpid()
    assert lines(notes) == [f"open {pid}", f"close {pid}"]


async def test_an_opener_is_told_where_the_worker_works(app: Penstock, database: Database) -> None:
    async with isolating(app, children=1):
        for asked in (inside.says_where, inside.says_where_in_the_worker):
            told = await app.wait(await app.enqueue(asked), timeout=30)
            assert told == [database.url, "penstock"]


async def test_a_child_that_leaves_closes_its_resources(app: Penstock, notes: Path) -> None:
    async with isolating(app, children=1):
        wearing = [await app.enqueue(inside.wears_with_model) for _ in (1, 2)]
        pids = [await app.wait(job, timeout=30) for job in wearing]
        await until(lambda: len(lines(notes)) == 4, what="both to leave")
    assert len(set(pids)) == 2
    # One after the other, whichever job came first: until it is gone, one that leaves counts.
    either = (pids, pids[::-1])
    assert lines(notes) in [
        [f"{what} {pid}" for pid in order for what in ("open", "close")] for order in either
    ]


async def test_a_resource_that_does_not_open_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    inner = ChildResources(
        {inside.Model: inside.never_opens, inside.Broken: inside.cancels}, Settings()
    )
    await inner.open_all([inside.Broken, inside.Model], 0.01)
    assert inner.missing([inside.Broken, inside.Model]) == ["Broken", "Model"]
    assert "Broken could not be opened in a child process: CancelledError" in caplog.text
    assert "Model has not opened within 0.01 s" in caplog.text
    await inner.close()


async def test_handlers_may_have_processes_of_their_own(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    app.include(jobs.uses_processes)
    async with isolating(app):
        assert await app.wait(await app.enqueue(jobs.uses_processes), timeout=60) == [0, 2, 4, 6]
    assert "doubling 3" in caplog.text
