"""A job's handler is run, with what it asks for, and its result is kept."""

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from penstock import Cancel, Context, Discard, Done, Fixed, Penstock, Retry, Snooze
from tests.fixtures.until import until
from tests.fixtures.worker import reaches, worker_of


async def test_async_handlers_run_on_the_loop_and_sync_ones_in_threads(app: Penstock) -> None:
    ran_in = {}

    @app.task
    async def on_loop(number: int) -> int:
        ran_in["async"] = threading.current_thread()
        return number + 1

    @app.task
    def in_thread(number: int) -> int:
        ran_in["sync"] = threading.current_thread()
        return number + 2

    async with worker_of(app):
        jobs = [await app.enqueue(on_loop, 1), await app.enqueue(in_thread, 1)]
        assert [await app.wait(job, timeout=30) for job in jobs] == [2, 3]
    assert ran_in["async"] is threading.main_thread()
    assert ran_in["sync"] is not threading.main_thread()


async def test_a_handler_that_waits_is_one_of_many(app: Penstock) -> None:
    """As many run at once as the queue has slots, no more."""
    running, most, enough = 0, 0, asyncio.Event()

    @app.task
    async def meet() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if most == 5:
            enough.set()
        await enough.wait()
        running -= 1

    async with worker_of(app, {"default": 5}):
        jobs = await app.enqueue_many(meet.prepare() for _ in range(12))
        for job in jobs:
            await app.wait(job, timeout=30)
    assert most == 5


async def test_the_context_tells_about_the_attempt(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    @app.task(name="look", retry=Fixed(0.01))
    async def look(ctx: Context, name: str) -> None:
        seen.append((ctx.job.id, ctx.attempt, ctx.job.failures, ctx.job.args, ctx.cancelled))
        ctx.logger.warning("looked at %s", name)
        if ctx.attempt == 1:
            raise ValueError("once more")
        assert ctx.job.last_error is not None
        assert ctx.job.last_error.message == "once more"

    with caplog.at_level(logging.WARNING, "penstock.job"):
        async with worker_of(app):
            enqueued = await app.enqueue(look, "Ada")
            await app.wait(enqueued, timeout=30)
    id = enqueued.id
    assert seen == [(id, 1, 0, {"name": "Ada"}, False), (id, 2, 1, {"name": "Ada"}, False)]
    lines = [record for record in caplog.records if record.name == "penstock.job"]
    assert [record.getMessage() for record in lines] == [
        f"[look {id}#1] looked at Ada",
        f"[look {id}#2] looked at Ada",
    ]
    assert (lines[0].job_id, lines[0].attempt) == (id, 1)


async def test_a_running_job_names_its_worker(app: Penstock) -> None:
    seen, enough = [], asyncio.Event()

    @app.task
    async def look(ctx: Context) -> None:
        seen.append(ctx.job.worker)
        await enough.wait()

    async with worker_of(app, name="turbine 1"):
        job = await app.enqueue(look)
        assert (await reaches(app, job, "running")).worker == "turbine 1"
        enough.set()
        await app.wait(job, timeout=30)
    assert seen == ["turbine 1"]
    assert (await app.get(job)).worker is None


async def test_the_last_progress_told_before_the_end_is_kept(app: Penstock) -> None:
    @app.task
    async def count(ctx: Context, steps: int) -> None:
        for step in range(steps):
            ctx.progress(step + 1, steps)

    jobs = await app.enqueue_many(count.prepare(4) for _ in range(50))
    await worker_of(app).drain()

    states = await app.states(jobs)
    assert {(status.done, status.total) for status in states.values()} == {(4.0, 4.0)}


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_progress_is_seen_while_the_job_runs(app: Penstock, kind: str) -> None:
    go_on = threading.Event()

    @app.task(name="async")
    async def on_loop(ctx: Context) -> None:
        ctx.progress(3, 10, "reading\0")
        await asyncio.to_thread(go_on.wait, 10)

    @app.task(name="sync")
    def in_thread(ctx: Context) -> None:
        ctx.progress(2, 10, "starting")
        ctx.progress(3, 10, "reading\0")
        go_on.wait(10)

    async with worker_of(app):
        enqueued = await app.enqueue(app.tasks.get(kind))

        async def told() -> bool:
            status = (await app.states([enqueued]))[enqueued.id]
            return (status.state, status.done, status.total) == ("running", 3, 10) and (
                status.message == "reading\ufffd"
            )

        await until(told, what="the progress")
        go_on.set()
        await app.wait(enqueued, timeout=30)


async def test_the_last_progress_a_handler_tells_is_kept(app: Penstock) -> None:
    @app.task(max_attempts=1)
    async def work(ctx: Context, ending: str) -> str:
        for done in range(1, 11):
            ctx.progress(done, 10, f"step {done}")
        if ending == "failed":
            raise ValueError
        return ending

    async with worker_of(app):
        for ending in ("completed", "failed"):
            enqueued = await app.enqueue(work, ending)
            await reaches(app, enqueued, ending)
            status = (await app.states([enqueued]))[enqueued.id]
            assert (status.done, status.total, status.message) == (10, 10, "step 10")


async def test_any_result_is_stored(app: Penstock) -> None:
    given = {
        "nested": {"nested": [1, None, "ä"]},
        "nul": "a\0b",
        "surrogate": "\ud800",
        "nan": float("nan"),
        "duration": timedelta(seconds=90),
        "set": {1},
    }
    stored = {
        "nested": {"nested": [1, None, "ä"]},
        "nul": "a\ufffdb",
        "surrogate": "\ufffd",
        "nan": None,
        "duration": "PT90S",
        "set": [1],
    }

    @app.task
    async def give(name: str):  # type: ignore[no-untyped-def]
        return given[name]

    async with worker_of(app):
        for name in given:
            assert await app.wait(await app.enqueue(give, name), timeout=30) == stored[name], name


async def test_a_huge_result_is_replaced_by_its_size(app: Penstock) -> None:
    @app.task
    async def give() -> str:
        return "x" * 2_000_000

    async with worker_of(app):
        result = await app.wait(await app.enqueue(give), timeout=30)
    assert result == {"$too_large": {"bytes": 2_000_002, "limit": 1024 * 1024}}


async def test_an_error_is_kept_whole_but_bounded(app: Penstock) -> None:
    def deep(levels: int) -> None:
        if levels == 0:
            raise ValueError("\0\ud800" + "x" * 100_000)
        deep(levels - 1)

    @app.task(max_attempts=2, retry=Fixed(0.01))
    async def broken() -> None:
        deep(500)

    began = datetime.now(UTC)
    async with worker_of(app, name="worker-1"):
        job = await reaches(app, await app.enqueue(broken), "failed")
    assert (job.reason, job.attempt, job.failures) == ("exhausted", 2, 2)
    for number, error in enumerate(job.errors, start=1):
        assert (error.attempt, error.worker, error.kind) == (number, "worker-1", "failure")
        assert error.type == "ValueError"
        assert error.message.startswith("\ufffd\ufffdxxx")
        assert len(error.message.encode()) <= 4096
        assert "in deep" in error.traceback
        assert len(error.traceback.encode()) <= 16 * 1024
        assert error.at is not None
        assert began - timedelta(seconds=1) < error.at < datetime.now(UTC) + timedelta(seconds=1)
    assert job.errors[0].at < job.errors[1].at


async def test_an_error_that_cannot_be_told_is_told_all_the_same(app: Penstock) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @app.task(max_attempts=1)
    async def broken() -> None:
        raise Mute

    async with worker_of(app):
        job = await reaches(app, await app.enqueue(broken), "failed")
    assert "RuntimeError" in job.errors[0].message


async def test_even_system_exit_is_only_a_failed_attempt(app: Penstock) -> None:
    @app.task(max_attempts=1)
    async def leave() -> None:
        raise SystemExit(3)

    @app.task(max_attempts=1)
    def leave_thread() -> None:
        raise SystemExit(3)

    async with worker_of(app):
        jobs = [await app.enqueue(leave), await app.enqueue(leave_thread)]
        for job in jobs:
            failed = await reaches(app, job, "failed")
            assert failed.errors[0].type == "SystemExit"


async def test_a_handler_says_what_came_of_it(app: Penstock) -> None:
    @app.task
    async def speak(word: str) -> object:
        words = {
            "done": Done({"n": 1}),
            "retry": Retry(after=3600, error="the API is down"),
            "snooze": Snooze(3600),
            "cancel": Cancel("no longer there"),
            "discard": Discard("broken for good"),
        }
        return words[word]

    async with worker_of(app):
        words = ("done", "retry", "snooze", "cancel", "discard")
        jobs = {word: await app.enqueue(speak, word) for word in words}
        done = await reaches(app, jobs["done"], "completed")
        retry = await reaches(app, jobs["retry"], "scheduled")
        snooze = await reaches(app, jobs["snooze"], "scheduled")
        cancel = await reaches(app, jobs["cancel"], "cancelled")
        discard = await reaches(app, jobs["discard"], "failed")
    assert done.result == {"n": 1}
    assert (retry.failures, retry.errors[0].message) == (1, "the API is down")
    assert retry.run_at - retry.errors[0].at == timedelta(hours=1)
    assert (snooze.failures, snooze.attempt, snooze.errors) == (0, 1, ())
    assert cancel.reason == "no longer there"
    assert (discard.reason, discard.errors[0].message) == ("discarded", "broken for good")


async def test_a_snooze_runs_again_and_counts_as_nothing(app: Penstock) -> None:
    @app.task(max_attempts=1)
    async def poll(ctx: Context) -> object:
        return Snooze(0.01) if ctx.attempt < 4 else ctx.attempt

    async with worker_of(app):
        enqueued = await app.enqueue(poll)
        assert await app.wait(enqueued, timeout=30) == 4
    job = await app.get(enqueued)
    assert (job.attempt, job.failures, job.errors) == (4, 0, ())
