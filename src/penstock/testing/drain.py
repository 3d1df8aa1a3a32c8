"""Runs all enqueued jobs in the test's own process, with a real worker."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from penstock.app.app import Penstock
from penstock.config import Liveness, Pace, Stopping, Upkeep
from penstock.errors import UnknownTask
from penstock.job import BLOCKED, READY, SCHEDULED, Job
from penstock.store import key_of
from penstock.store.insights import InsightQueries
from penstock.store.steps import EventStatements
from penstock.tasks import Timetable
from penstock.testing.clock import advance_to
from penstock.testing.databases import check_test_database, closed_again
from penstock.testing.errors import NotDrained, unexpected_failure
from penstock.testing.faults import Fault, FaultInjector, Redelivery
from penstock.testing.jobs import enqueued
from penstock.testing.watch import Watch
from penstock.worker import Tally, Worker
from penstock.worker.claim.claimer import Quota
from penstock.worker.parts import Parts


async def parked_job_error(app: Penstock) -> NotDrained | None:
    """Return an error if a job was put back because this app cannot run it, else None."""
    for job in await enqueued(app):
        if job.stuck_since is not None:
            return NotDrained(f"Job {job.id} of {job.task} cannot be run. {_reason(app, job)}")
    return None


def _reason(app: Penstock, job: Job) -> str:
    if job.reason == "unknown_task":
        return str(UnknownTask(job.task, app.tasks.names()))
    return job.last_error.message if job.last_error else str(job.reason)


async def hidden_failure(app: Penstock, watch: Watch) -> Exception | None:
    """Return the error of an attempt that failed although its handler raised nothing, or None.

    Such an attempt took too long, did not commit its transaction after ctx.complete, or returned an
    invalid value.
    """
    ids = [key_of(job) for job, _ in watch.calls_by_attempt]
    for job in await app._execute(lambda on: app.store.get(on, ids)):
        for stored in job.errors:
            call = watch.calls_by_attempt.get((job.id, stored.attempt))
            error = unexpected_failure(stored)
            if call is not None and not call.is_struck and error is not None:
                error.add_note(call.description())
                return error
    return None


DEFAULT_LIMIT = 1000
MAX_JOBS_PER_STATEMENT = 10_000
# After a failure, drain does not wait as long for running handlers as a worker in production.
STOPPING = Stopping(finish=2.0, cancel=2.0)
# How often a drain lets jobs ask again for an event that was just being sent. By then, senders that
# the drain itself runs have committed. A transaction of the test may stay open.
MAX_REPEATED_WAITS = 3


async def drain(
    app: Penstock,
    *,
    queues: Iterable[str] | str | None = None,
    slots: int = 1,
    scheduled: bool = False,
    twice: bool = False,
    faults: Iterable[Fault] = (),
    raises: bool = True,
    limit: int = DEFAULT_LIMIT,
) -> Tally:
    """Run all due jobs and the jobs that they enqueue, and return counts of their outcomes.

        await app.enqueue(send_invoice, 42)
        await drain(app)

    If a handler raises an exception, `drain` raises it too, and the other jobs stay in the queue.

    - `queues`: run jobs of these queues only.
    - `slots`: how many jobs of a queue run side by side. By default they run one by one, in order.
    - `scheduled`: also run jobs that are due later, retries included, by letting time pass.
    - `twice`: deliver every job a second time, as after the loss of a worker.
    - `faults`: failures to inject into chosen calls; see `penstock.testing.faults`.
    - `raises`: with False, failures are counted, and exceptions of handlers are not raised.
    - `limit`: the most attempts to run. If jobs are still ready then, as with a job that enqueues
      itself forever, `drain` raises NotDrained.
    """
    check_test_database(app, "drain")
    injector = FaultInjector(app, faults)
    watch = Watch([injector, *([Redelivery(app)] if twice else [])])
    draining = _Draining(
        app,
        watch,
        queues=_names(queues),
        slots=slots,
        raises=raises,
        limit=limit,
    )
    async with closed_again(app):
        await draining.run()
        while scheduled and (due := await draining.next_due()):
            await advance_to(app, due)
            await draining.run()
        await draining.check_none_paused()
    injector.check_all_struck(watch.calls)
    return draining.tally


class _DrainingWorker(Worker):
    """A worker that never becomes the leader. The drain does a leader's work for jobs itself.

    Every drain starts a new worker, and a third of its time would go to elections and maintenance.
    All statements share two connections, because each new connection has to plan them again.
    """

    _pool_size = 2

    def _make_parts(self, quota: Quota) -> Parts:
        parts = super()._make_parts(quota)
        parts.maintenance.never_lead()
        return parts


class _Draining:
    """One call of `drain`. It runs one worker after the other until no job is ready."""

    def __init__(
        self,
        app: Penstock,
        watch: Watch,
        *,
        queues: frozenset[str] | None,
        slots: int,
        raises: bool,
        limit: int,
    ) -> None:
        self._app = app
        self._watch = watch
        self._tasks = watch.wrap_tasks(app._runnable_tasks())
        self._queues = queues
        self._slots = slots
        self._raises = raises
        self._limit = limit
        self._repeated_waits = 0
        self.tally = Tally()

    async def run(self) -> None:
        """Run jobs until none is ready."""
        previous: set[tuple[str, int]] = set()
        while jobs := await self._ready_jobs():
            queues = {job.queue for job in jobs}
            attempts = {(job.id, job.attempt) for job in jobs}
            if attempts == previous:
                raise self._no_progress(queues)
            previous = attempts
            left = self._limit - self._watch.calls.total()
            if left <= 0:
                raise self._endless()
            worker = self._worker(queues | await self._default_queues())
            if self._raises:
                self._watch.on_raise = worker.ask_to_stop
            await worker.drain(limit=left)
            if self._raises:
                await self._raise_failures()

    def _worker(self, queues: set[str]) -> Worker:
        app = self._app
        worker = _DrainingWorker(
            app._connector,
            self._tasks,
            app.events,
            app.resources,
            # Schedules do not fire in a drain: a test calls app.run_schedule.
            Timetable(),
            app._pools,
            queues=dict.fromkeys(queues, self._slots),
            name="test",
            liveness=Liveness(),
            pace=Pace(),
            stopping=STOPPING,
            upkeep=Upkeep(),
        )
        worker.tally = self.tally
        return worker

    async def _default_queues(self) -> set[str]:
        """Return the default queues of the app's tasks, except paused ones.

        The jobs of a drain may enqueue jobs in these queues. The worker that runs now serves them
        too, so that the drain does not need another worker for each queue.
        """
        queues = self._served({task.defaults.queue for task in self._app.tasks})
        return queues - set(await self._app.paused())

    async def _ready_jobs(self) -> list[Job]:
        """Do the maintenance that a leader would do, and return the jobs that are ready then."""
        store = self._app.store
        await self._app._execute(lambda on: store.expire(on, MAX_JOBS_PER_STATEMENT))
        await self._app._execute(lambda on: store.promote(on, None, MAX_JOBS_PER_STATEMENT))
        await self._app._execute(lambda on: EventStatements(store).wake(on, MAX_JOBS_PER_STATEMENT))
        jobs = await enqueued(self._app)
        if await self._repeat_waits(jobs):
            jobs = await enqueued(self._app)
        ready = [job for job in jobs if job.state == READY]
        queues = self._served({job.queue for job in ready}) - set(await self._app.paused())
        return [job for job in ready if job.queue in queues]

    async def _repeat_waits(self, jobs: list[Job]) -> bool:
        """Make jobs ready that began to wait for an event while the event was being sent.

        Returns whether any job was made ready. A worker would run such a job again a second later,
        but the result of a drain must not depend on whether a waiting and a sending job, which run
        side by side, happen to meet.
        """
        served = self._served({job.queue for job in jobs})
        waiting = [job for job in jobs if job.queue in served and _met_sender(job)]
        if not waiting or self._repeated_waits == MAX_REPEATED_WAITS:
            return False
        self._repeated_waits += 1
        keys = [key_of(job.id) for job in waiting]
        await self._app._execute(lambda on: self._app.store.retry(on, keys))
        return True

    def _no_progress(self, queues: set[str]) -> NotDrained:
        return NotDrained(
            f"Jobs of {', '.join(sorted(queues))} are ready, but cannot run: a lane is paused, a "
            "window is closed or a limit is 0. Look with app.queue_settings() and app.limits(), or "
            "name the queues to drain: drain(app, queues=…)."
        )

    async def check_none_paused(self) -> None:
        """Raise NotDrained if jobs are left only because their queue is paused.

        Otherwise the test would pass without having run them.
        """
        paused = self._served(set(await self._app.paused()))
        held = [job for job in await enqueued(self._app) if job.state == READY]
        if held := [job for job in held if job.queue in paused]:
            queue, others = held[0].queue, len(held) - 1
            more = f" and {others} more" if others else ""
            raise NotDrained(
                f"The queue {queue} is paused, and job {held[0].id} of {held[0].task}{more} "
                f'cannot run. Resume the queue with app.resume("{queue}"), or name the queues to '
                "drain: drain(app, queues=…)."
            )

    async def next_due(self) -> datetime | None:
        """Return when the next job is due that waits only for its time, or None without one."""
        jobs = await enqueued(self._app)
        served = self._served({job.queue for job in jobs})
        due = [
            moment
            for job in jobs
            if job.queue in served and (moment := await self._due(job)) is not None
        ]
        return min(due, default=None)

    async def _due(self, job: Job) -> datetime | None:
        """Return when a job will run without an action of another job or caller; None if never."""
        if job.state == SCHEDULED and job.stuck_since is None:
            return job.run_at
        if job.state != BLOCKED:
            return None
        looks, key = InsightQueries(self._app.store), key_of(job.id)
        waits = await self._app._execute(lambda on: looks.event_waits(on, key))
        return min((wait["until"] for wait in waits if wait["until"]), default=None)

    def _served(self, queues: set[str]) -> set[str]:
        return queues if self._queues is None else queues & self._queues

    async def _raise_failures(self) -> None:
        """Raise the first handler's exception, or an error for a failure without an exception."""
        if self._watch.raised:
            (_, first), *others = self._watch.raised
            for call, error in others:
                first.add_note(f"{call.description()} raised {type(error).__name__} as well.")
            raise first
        if self.tally.parked and (parked := await parked_job_error(self._app)):
            raise parked
        failed = self.tally.failed + self.tally.retried
        if failed and (hidden := await hidden_failure(self._app, self._watch)):
            raise hidden

    def _endless(self) -> NotDrained:
        [(task, calls)] = self._watch.calls.most_common(1)
        return NotDrained(
            f"The queue is not empty after {self._limit} attempts; {calls} of them were of the "
            f"task {task}. Does it enqueue itself for ever? If not, raise the limit: "
            f"drain(app, limit={self._limit * 10})."
        )


def _met_sender(job: Job) -> bool:
    """Return whether a job began to wait for an event while the event was being sent."""
    return job.state == SCHEDULED and (job.reason or "").startswith("event:")


def _names(queues: Iterable[str] | str | None) -> frozenset[str] | None:
    if queues is None:
        return None
    return frozenset([queues] if isinstance(queues, str) else queues)
