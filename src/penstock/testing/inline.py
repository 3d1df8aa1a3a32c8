"""Runs one attempt without a queue: the worker's own executor runs a job that is not stored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, NamedTuple, NoReturn, ParamSpec, TypeVar, cast
from uuid import uuid4

import asyncpg
import msgspec

from penstock.app.app import Penstock
from penstock.config import Database
from penstock.errors import BadArgument
from penstock.job import AttemptError, Job, State
from penstock.lifecycle import DatabaseHealth
from penstock.outcome import PARK_LIMIT_S, Done, Transition, outcome_of
from penstock.store import ClaimedJob, Settlement, Store
from penstock.store.steps import AwaitedEvent, Saved
from penstock.tasks import Options, Request, Task
from penstock.tasks.registry import explain_not_a_task
from penstock.tasks.workflow import Parent
from penstock.telemetry import Events
from penstock.testing.errors import unexpected_failure
from penstock.testing.watch import Watch
from penstock.worker.attempt import Attempt
from penstock.worker.claim.queue import QueueState
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.executor import Executor
from penstock.worker.run.journal import Journal
from penstock.worker.run.resources import Resources, WorkerResources

T = TypeVar("T")


class Told(NamedTuple):
    """One call of `ctx.progress`."""

    done: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class Ran(Generic[T]):
    """The outcome of an attempt, and the next state of its job.

    ran = await attempt(charge, 42)
    assert (ran.state, ran.delay) == ("scheduled", 30)
    """

    job: Job
    transition: Transition
    value: Any = None
    error: BaseException | None = None
    progress: tuple[Told, ...] = ()

    @property
    def state(self) -> State:
        """The job's new state, such as completed, failed, cancelled, or scheduled to run again."""
        return self.transition.state

    @property
    def reason(self) -> str | None:
        """Why the job is in its state: exhausted, discarded, or the reason that a handler gave."""
        return self.transition.reason

    @property
    def delay(self) -> float:
        """How many seconds pass before the job runs again, if it does."""
        return self.transition.delay

    @property
    def counts_failure(self) -> bool:
        """Whether the attempt counts against `max_attempts`. A snooze does not."""
        return self.transition.counts_failure

    @property
    def result(self) -> T:
        """The handler's return value. If the handler raised an exception, this raises the same."""
        if self.error is not None:
            raise self.error
        outcome = outcome_of(self.value)
        assert isinstance(outcome, Done), (
            f"The task {self.job.task} has no result. Its outcome was {outcome!r}."
        )
        result: T = outcome.result
        return result


def make_claimed_job(request: Request[Any], number: int) -> ClaimedJob:
    """Return a job as if this request had just been enqueued and claimed by a worker."""
    options, now = request.options, datetime.now(UTC)
    row = {
        "id": 1,
        "token": uuid4(),
        "task": request.task,
        "args": request.args,
        "args_version": request.args_version,
        "attempt": number,
        "failures": number - 1,
        "max_attempts": options.max_attempts,
        "losses": 0,
        "timeout": options.timeout,
        "batch": None,
        "suspect": False,
        "lane": "",
        "priority": options.priority,
        "tenant": options.tenant,
        "ready_at": now,
        "created_at": now,
        "extra": _extra(options, now),
    }
    return ClaimedJob(cast(asyncpg.Record, row), options.queue)


def _extra(options: Options, now: datetime) -> str:
    extra = {
        "run_at": options.run_at or now + timedelta(seconds=options.delay or 0),
        "deadline": options.deadline,
        "subject": options.subject,
        "requested_by": options.requested_by,
        "tags": options.tags,
        "meta": _json(options.meta),
        "retry": _json(options.retry),
    }
    return msgspec.json.encode(extra).decode()


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


P = ParamSpec("P")


@dataclass(frozen=True)
class Inline:
    """Runs a task without a queue, with resources of the test's own.

        fake = Inline(resources={Mailer: FakeMailer()})
        assert await fake.run(send_invoice, 42) == "sent"

    - `number`: the number of the attempt. The attempts before it count as failed.
    - `resources`: the values that `ctx.resource` returns, by type.
    - `app`: opens the other resources of the task, as a worker of this app would.
    - `parents`: what `ctx.parents()` returns: for each step's name, a result or a `Parent`.
    """

    number: int = 1
    resources: Mapping[type[Any], Any] = field(default_factory=dict)
    app: Penstock | None = None
    parents: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.number < 1:
            raise BadArgument("number", self.number, "the number of an attempt, from 1 on")

    async def run(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a task, and return what its handler returns or raise what it raises.

            assert await run(greet, "Ada") == "Hello, Ada"

        This needs no database. The arguments are checked and go through JSON, as in production.
        """
        ran: Ran[T] = await self.attempt(task, *args, **kwargs)
        if ran.error is not None:
            raise ran.error
        value: T = ran.value
        return value

    async def attempt(self, task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Ran[T]:
        """Run a task, and return the outcome for its job, even if the handler raises.

        ran = await attempt(charge, 42)
        assert (ran.state, ran.delay) == ("scheduled", 30)
        """
        if not isinstance(task, Task):
            raise TypeError(explain_not_a_task("run", task))
        job = make_claimed_job(task.prepare(*args, **kwargs), self.number)
        watch = Watch()
        reported: list[Told] = []
        settled: list[Settlement] = []
        resources = WorkerResources(self._openers(task), DatabaseHealth(Events()), self._database)
        executor = Executor(
            watch.wrap_tasks([task]),
            _NoStore(),
            resources,
            _UnlimitedBudgets(),
            _NoJournal(self.parents),
            lambda _, *report: reported.append(Told(*report)),
            settled.append,
            worker="test",
            threads=1,
            park_limit=PARK_LIMIT_S,
        )
        try:
            await resources.tick()
            await _run(executor, job)
        finally:
            executor.close()
            await resources.close()
        return _make_ran(job, settled[0], watch, reported)

    @property
    def _database(self) -> Database:
        return self.app.database if self.app else Database()

    def _openers(self, task: Task[..., Any]) -> Resources:
        openers = Resources()
        for kind, value in self.resources.items():
            openers.add(kind, partial(nullcontext, value))
        for kind, opener in self.app.resources if self.app else ():
            if kind in task.settings.resources and kind not in self.resources:
                openers.add(kind, opener)
        return openers


run = Inline().run
attempt = Inline().attempt


class _NoStore(Store):
    """The store of an attempt that has no database."""

    def statement(self, name: str) -> NoReturn:
        raise RuntimeError(
            "ctx.fence and ctx.complete need a job in a database, but this attempt has none. "
            "Enqueue the job and call drain(app) instead."
        )

    call = statement


class _UnlimitedBudgets(Budgets):
    """Budgets that always have enough units. A server's 429 ends the attempt as in production."""

    def __init__(self) -> None:
        super().__init__(NotImplemented, _NoStore(), NotImplemented)

    async def reserve(self, key: str, units: float) -> float | None:
        return None

    async def correct(self, key: str, units: float) -> None:
        return None

    async def close(self, key: str, wait: float) -> float:
        return wait

    async def give_back_starts(self, keys: Sequence[str]) -> None:
        return None


class _NoJournal(Journal):
    """The journal of a job that is not stored. It has no earlier steps and keeps nothing."""

    def __init__(self, parents: Mapping[str, Any]) -> None:
        super().__init__(NotImplemented, _NoStore())
        self._parents = parents

    async def parents(self, attempt: Attempt) -> list[Parent]:
        return [_parent(step, value) for step, value in self._parents.items()]

    async def read(self, attempt: Attempt) -> list[Saved]:
        return []

    async def save(self, attempt: Attempt, saved: Saved) -> float:
        return 0.0

    async def recall(self, attempt: Attempt, name: str, key: bytes) -> str | None:
        return None

    async def share(self, attempt: Attempt, saved: Saved, key: bytes, ttl: float) -> None:
        return None

    async def wait_for_event(
        self, attempt: Attempt, step: str, name: str, after: int, timeout: float | None
    ) -> AwaitedEvent:
        return AwaitedEvent("wait", None)

    async def sleep(
        self, attempt: Attempt, name: str, until: datetime | None, seconds: float
    ) -> float:
        return seconds if until is None else (until - datetime.now(UTC)).total_seconds()


def _parent(step: str, value: Any) -> Parent:
    if isinstance(value, Parent):
        return value
    return Parent(id="0", step=step, task=step, state="completed", result=value)


async def _run(executor: Executor, job: ClaimedJob) -> None:
    """Run the attempt to its end, as the dispatcher does."""
    attempt = executor.start(job, QueueState(job.queue, 1, 1))
    if attempt is None or attempt.future is None:
        return
    try:
        await asyncio.wait([attempt.future])
    finally:
        await _end(attempt)
    if not attempt.is_settled:
        executor.handle_unstarted(attempt)


async def _end(attempt: Attempt) -> None:
    if attempt.timer is not None:
        attempt.timer.cancel()
    if attempt.future is not None and not attempt.future.done():
        attempt.stop("shutdown")
        await asyncio.wait([attempt.future])


def _make_ran(
    job: ClaimedJob, settlement: Settlement, watch: Watch, reported: list[Told]
) -> Ran[Any]:
    transition = settlement.transition
    value = watch.returned[0][1] if watch.returned else None
    raised = [error for _, error in watch.raised] + watch.waits
    error = raised[0] if raised else None
    if error is None and transition.error:
        error = unexpected_failure(msgspec.convert(transition.error, AttemptError))
    return Ran(job.public_job, transition, value, error, tuple(reported))
