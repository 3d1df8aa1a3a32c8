"""A database that stands still: it takes connections and packets, and answers nothing."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import pytest

from penstock import (
    BatchHandle,
    DatabaseLost,
    Liveness,
    Penstock,
    StartTimeout,
    Stopping,
    SyncPenstock,
    Workflow,
    task,
)
from penstock.insights import Insights
from penstock.lifecycle import Service
from tests.fixtures.database import connected
from tests.fixtures.own_server import OwnServer, own_server
from tests.fixtures.until import until
from tests.fixtures.worker import ask_the_database

__all__ = ["own_server"]

T = TypeVar("T")

LIMIT = 1.0
# A busy machine may need this much longer, and one that stands still: the clock ticks on.
MARGIN = 6.0
CONNECTIONS = 90
TICK = 0.02
# With a minute's patience, as the driver has it, nothing here ends before.
FAR_TOO_LONG = 30.0
IN_LOCK = """
SELECT count(*) = $1 FROM pg_stat_activity
WHERE application_name = 'penstock' AND wait_event_type = 'Lock'
"""


@task(name="greet")
async def greet(name: str = "") -> None: ...


def flow() -> Workflow:
    steps = Workflow()
    steps.add(greet.prepare("Ada"), name="first")
    return steps


# What calls are given, by the names of their parameters.
GIVEN: dict[str, Any] = {
    **dict.fromkeys(("job", "job_id", "batch", "workflow", "key"), "1"),
    **{name: ["1"] for name in ("jobs", "ids", "names")},
    **dict.fromkeys(("name", "lane", "secret"), "some"),
    **dict.fromkeys(("seconds", "lasts", "idle", "days"), 3),
    "address": "127.0.0.1",
    "flow": flow(),
    "kind": "job",
    "moment": datetime.now(UTC),
    "password_hash": "hash",
    "queue": "default",
    "requests": [greet.prepare("Ada")],
    "role": "viewer",
    "scopes": ["read"],
    "state": "failed",
    "task": greet,
}
# Of these parameters none is required, and one is needed.
CHANGES: dict[str, dict[str, Any]] = {
    "set_lane": {"weight": 2},
    "set_limit": {"slots": 2},
    "set_person": {"role": "viewer"},
    "set_plan": {"priority": 2},
    "set_queue": {"fair": True},
    "set_schedule": {"what": greet, "every": 60},
    "set_tenant": {"late_after": 60},
    **{name: {"task": "greet"} for name in ("purge", "purging", "redrive", "redriving")},
}
NO_CALLS = {
    *("acting", "batch", "for_tenant", "include", "inside", "install", "local_pool", "on"),
    *("resource", "schedule", "statement", "trace_with", "uninstall", "use_database", "worker"),
}
# They ask nothing of an app that is open, or have nothing to ask.
ASK_NOTHING = {
    "close",
    "insights",
    "open",
    "pool",
    "sync_schedules",
    "check_key",
    "check_login",
    "lateness",
    "close_login",
}


class Awake:
    """Seconds in which the loop ran: a machine that stands still stops this clock, too."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._task = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(TICK)
            self.seconds += min(time.monotonic() - began, 2 * TICK)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def calls_of(kind: type, on: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every public call of a class, ready to be made."""
    for name, method in inspect.getmembers(kind, callable):
        if name.startswith("_") or name in NO_CALLS:
            continue
        positional, named = [], dict(CHANGES.get(name, {}))
        for parameter in list(inspect.signature(method).parameters.values())[1:]:
            is_many = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if is_many or parameter.default is not parameter.empty or parameter.name in named:
                continue
            if parameter.kind is parameter.KEYWORD_ONLY:
                named[parameter.name] = GIVEN[parameter.name]
            else:
                positional.append(GIVEN[parameter.name])
        yield f"{kind.__name__}.{name}", partial(getattr(on, name), *positional, **named)
        if name.startswith("wait"):
            waits = partial(getattr(on, name), *positional, timeout=LIMIT)
            yield f"{kind.__name__}.{name} for {LIMIT} s", waits


async def made(call: Callable[[], Any]) -> None:
    """Make a call to its end, if it is one that goes on and on to its first answer."""
    answer = call()
    await (anext(answer) if inspect.isasyncgen(answer) else answer)


async def outcomes(calls: dict[str, Callable[[], Awaitable[None]]]) -> dict[str, tuple[float, Any]]:
    """How long each call took, all at once, and what came of it."""
    clock = Awake()

    async def one(call: Callable[[], Awaitable[None]]) -> tuple[float, Any]:
        try:
            await call()
        except Exception as error:
            return clock.seconds, error
        return clock.seconds, None

    async with asyncio.timeout(FAR_TOO_LONG):
        found = await asyncio.gather(*map(one, calls.values()))
    await clock.stop()
    return dict(zip(calls, found, strict=True))


def expect_in_time(found: dict[str, tuple[float, Any]]) -> None:
    late = {name: took for name, (took, _) in found.items() if took > LIMIT + MARGIN}
    assert not late
    other = {
        name: error
        for name, (_, error) in found.items()
        if not isinstance(error, DatabaseLost) and name.split(".")[1] not in ASK_NOTHING
    }
    assert not other


async def surely(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call until it ends within the short limit: a busy machine may need longer."""
    while True:
        with suppress(DatabaseLost):
            return await call()


async def warm(app: Penstock) -> None:
    """Open as many connections as the pool may have: each call gets as far as its statement."""
    pool = await surely(app.pool)
    async with AsyncExitStack() as stack:
        acquired = 0
        while acquired < CONNECTIONS:
            with suppress(OSError):
                await stack.enter_async_context(pool.acquire())
                acquired += 1


async def test_every_call_of_an_app_ends_in_time(own_server: OwnServer) -> None:
    app = Penstock(own_server.url, call_timeout=LIMIT, pool_size=CONNECTIONS)
    await warm(app)
    insights = await surely(app.insights)
    batch = await surely(app.open_batch)
    calls = {
        name: partial(made, call)
        for kind, on in ((Penstock, app), (BatchHandle, batch), (Insights, insights))
        for name, call in calls_of(kind, on)
        if name != "Penstock.close"
    }
    with own_server.frozen():
        found = await outcomes(calls)
        closing = await outcomes({"Penstock.close": app.close})
    expect_in_time(found | closing)


async def test_every_blocking_call_ends_in_time(own_server: OwnServer) -> None:
    app = Penstock(own_server.url, call_timeout=LIMIT, pool_size=CONNECTIONS)
    await warm(app)
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        calls = {
            name: partial(loop.run_in_executor, None, call)
            for name, call in calls_of(SyncPenstock, app.sync)
        }
        threads = stack.enter_context(ThreadPoolExecutor(len(calls)))
        calls = {
            name: partial(loop.run_in_executor, threads, call)
            for name, call in calls_of(SyncPenstock, app.sync)
        }
        stack.enter_context(own_server.frozen())
        found = await outcomes(calls)  # type: ignore[arg-type]
    await app.close()
    expect_in_time(found)


async def test_an_app_that_is_not_open_yet_is_refused_in_time(own_server: OwnServer) -> None:
    apps = [Penstock(own_server.url, call_timeout=LIMIT) for _ in range(5)]
    opened, asked, waiting, migrated, blocking = apps
    with own_server.frozen():
        found = await outcomes(
            {
                "app.open": partial(made, opened.open),
                "app.get": partial(made, partial(asked.get, "1")),
                "app.wait": partial(made, partial(waiting.wait, "1", timeout=LIMIT)),
                "app.migrate": partial(made, migrated.migrate),
                "sync.open": partial(asyncio.to_thread, blocking.sync.open),
            }
        )
        await asyncio.to_thread(blocking.sync.close)
    expect_in_time(found)


async def test_calls_waiting_for_an_app_to_open_end_together(own_server: OwnServer) -> None:
    app = Penstock(own_server.url, call_timeout=LIMIT)
    kinds = {
        "open": app.open,
        "get": partial(app.get, "1"),
        "wait": partial(app.wait, "1", timeout=LIMIT),
    }
    calls = {f"app.{name} {n}": partial(made, kinds[name]) for n in range(25) for name in kinds}
    with own_server.frozen():
        found = await outcomes(calls)
    expect_in_time(found)
    async with app:
        assert not await surely(app.paused)


async def test_cancelled_call_does_not_stop_the_opening_of_its_app(own_server: OwnServer) -> None:
    app = Penstock(own_server.url)
    with own_server.frozen():
        first = asyncio.create_task(app.pool())
        second = asyncio.create_task(app.paused())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
    assert not await second
    await app.close()


async def test_what_is_under_way_in_a_transaction_ends_in_time(own_server: OwnServer) -> None:
    app = Penstock(own_server.url, call_timeout=60 * LIMIT)
    async with (
        connected(own_server.url) as looking,
        connected(own_server.url) as blocker,
        blocker.transaction(),
    ):
        await blocker.execute("LOCK TABLE penstock.job")
        calls = {
            "app.enqueue": partial(app.enqueue, greet, "Ada"),
            "app.as": partial(app.for_tenant("acme").enqueue, greet, "Ada"),
            "app.start_workflow": partial(app.start_workflow, flow()),
        }
        asked = [asyncio.create_task(call()) for call in calls.values()]  # type: ignore[misc]
        await until(lambda: looking.fetchval(IN_LOCK, len(asked)), what="all to wait")
        with own_server.frozen():
            for each in asked:
                each.cancel()
            found = await outcomes(
                {name: partial(ended, each) for name, each in zip(calls, asked, strict=True)}
            )
            closing = await outcomes({"app.close": app.close})
    assert all(each.cancelled() for each in asked)
    assert max(took for took, _ in (found | closing).values()) < MARGIN


async def ended(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])


async def test_a_timeout_of_the_callers_own_holds(own_server: OwnServer) -> None:
    async with Penstock(own_server.url) as app:
        await app.paused()
        with own_server.frozen():
            asked = partial(asyncio.wait_for, app.for_tenant("acme").list(), 0.1)
            found = await outcomes({"app.list": asked})
    took, error = found["app.list"]
    assert isinstance(error, TimeoutError)
    assert took < MARGIN


async def test_a_stop_of_a_worker_ends_in_time(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although each part of it would wait for its last question for far too long."""
    monkeypatch.setattr(Service, "finish_within", FAR_TOO_LONG)
    app = Penstock(own_server.url, call_timeout=FAR_TOO_LONG)
    began = asyncio.Event()

    @app.task(name="wait")
    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    stopping = Stopping(finish=0.2, cancel=0.2, leave=LIMIT)
    worker = app.worker(stopping=stopping)
    await worker.start()
    await app.enqueue(wait)
    await began.wait()
    with own_server.frozen():
        await ask_the_database(worker)
        found = await outcomes({"stop": worker.stop})
        closing = await outcomes({"close": app.close})
    assert found["stop"][0] <= stopping.limit() + MARGIN
    assert closing["close"][0] <= MARGIN


async def test_a_start_of_a_worker_ends_in_time(own_server: OwnServer) -> None:
    """After its limit, and what the stop of its parts may take."""
    app = Penstock(own_server.url)
    await app.open()
    stopping = Stopping(finish=0.2, cancel=0.2, pool=0.2, leave=LIMIT)
    worker = app.worker(liveness=Liveness(start_wait=LIMIT), stopping=stopping)
    with own_server.frozen():
        found = await outcomes({"start": worker.start})
        took, error = found["start"]
        assert took <= LIMIT + stopping.leave + MARGIN
        assert isinstance(error, StartTimeout)
        assert str(error.__cause__) == f"no answer within {LIMIT:g} s"
        assert "penstock on the local socket gave worker" in str(error)
        await app.close()


@pytest.mark.parametrize("key", ["order 1", None])
async def test_enqueue_ends_in_time_while_commits_wait_for_a_standby(
    own_server: OwnServer, key: str | None
) -> None:
    options = greet.options(idempotency_key=key) if key else greet
    limit = 5 * LIMIT  # in which it is surely sent
    app = Penstock(own_server.url, call_timeout=limit)
    await surely(app.open)
    async with app:
        with own_server.setting("synchronous_standby_names", "nobody"):
            found = await outcomes({"app.enqueue": partial(app.enqueue, options, "Ada")})
        took, error = found["app.enqueue"]
        assert isinstance(error, DatabaseLost)
        assert took < limit + MARGIN
        assert error.is_sent
        assert str(error.__cause__) == f"no answer within {limit:g} s"
        told = "same idempotency_key" if key else "Look for them before you enqueue them again"
        assert told in str(error)
        assert "may or may not have been stored" in str(error)
        assert "penstock on the local socket" in str(error)
        if key:
            stored = await surely(partial(app.enqueue, options, "Ada"))
            assert stored.duplicate, "It is stored all the same."
