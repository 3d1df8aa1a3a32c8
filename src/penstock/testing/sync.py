"""The tools of `penstock.testing`, for tests that do not await.

    from penstock.testing.sync import assert_enqueued, drain

    app.sync.enqueue(send_invoice, 42)
    drain(app)

Functions that look at jobs also take `app.sync.inside(connection)`. Then they see the jobs that the
connection's open transaction has enqueued.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.app.app import Penstock
from penstock.app.client import Client
from penstock.app.sync import SyncClient
from penstock.tasks import Task
from penstock.testing import clock, faults, inline, jobs
from penstock.testing.databases import check_test_database, for_tests, led_to, run_aside
from penstock.testing.drain import drain as _drain
from penstock.testing.errors import AttemptFailed, NotDrained, NotForTests
from penstock.testing.inline import Ran, Told

__all__ = [
    "AttemptFailed",
    "Inline",
    "NotDrained",
    "NotForTests",
    "Ran",
    "Told",
    "advance",
    "advance_to",
    "assert_enqueued",
    "assert_nothing_enqueued",
    "attempt",
    "drain",
    "enqueued",
    "faults",
    "for_tests",
    "led_to",
    "run",
]

P = ParamSpec("P")
T = TypeVar("T")


def _of_app(
    function: Callable[Concatenate[Penstock, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Penstock, P], T]:
    @wraps(function)
    def call(app: Penstock, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        _refuse_in_event_loop(function.__name__)
        check_test_database(app, function.__name__)
        return app._portal.run(function(app, *args, **kwargs))

    return call


def _of_client(
    function: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Penstock | SyncClient, P], T]:
    @wraps(function)
    def call(client: Penstock | SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        _refuse_in_event_loop(function.__name__)
        caller = client.sync if isinstance(client, Penstock) else client
        return caller._run(function(caller._client, *args, **kwargs))

    return call


def _refuse_in_event_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{name} of penstock.testing.sync would block the event loop in which this test runs. "
        "Import it from penstock.testing, and await it."
    )


drain = _of_app(_drain)
advance = _of_app(clock.advance)
advance_to = _of_app(clock.advance_to)
enqueued = _of_client(jobs.enqueued)
assert_enqueued = _of_client(jobs.assert_enqueued)
assert_nothing_enqueued = _of_client(jobs.assert_nothing_enqueued)


class Inline(inline.Inline):
    """Runs a task without a queue, for tests that do not await.

    fake = Inline(resources={Mailer: FakeMailer()})
    assert fake.run(send_invoice, 42) == "sent"
    """

    def run(  # type: ignore[override]
        self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a task, and return what its handler returns or raise what it raises.

        This needs no database.
        """
        return run_aside(inline.Inline(**vars(self)).run(task, *args, **kwargs))

    def attempt(  # type: ignore[override]
        self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Ran[T]:
        """Run a task, and return the outcome for its job, even if the handler raises."""
        return run_aside(inline.Inline(**vars(self)).attempt(task, *args, **kwargs))


run = Inline().run
attempt = Inline().attempt
