"""Work off the queue in the test's own process, with a real worker."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from penstock.app.app import Penstock
from penstock.config import Liveness, Pace, Stopping, Upkeep
from penstock.errors import UnknownTask
from penstock.job import BLOCKED, READY, SCHEDULED, Job
from penstock.store import key_of
from penstock.store.insights import InsightQueries
from penstock.store.steps import Events
from penstock.tasks import Timetable
from penstock.testing.clock import advance_to
from penstock.testing.databases import expect_ground, left_as_it_was
from penstock.testing.errors import NotDrained, surprise
from penstock.testing.faults import Fault, Strikes, Twice
from penstock.testing.jobs import enqueued
from penstock.testing.watch import Watch
from penstock.worker import Tally, Worker
from penstock.worker.claim.claimer import Quota
from penstock.worker.parts import Parts


async def parked_job(app: Penstock) -> NotDrained | None:
    """A job that was put back because nobody here can run it."""
    for job in await enqueued(app):
        if job.stuck_since is not None:
            return NotDrained(f"Job {job.id} of {job.task} cannot be run. {_why(app, job)}")
    return None


def _why(app: Penstock, job: Job) -> str:
    if job.reason == "unknown_task":
        return str(UnknownTask(job.task, app.tasks.names()))
    return job.last_error.message if job.last_error else str(job.reason)


async def hidden_failure(app: Penstock, watch: Watch) -> Exception | None:
    """An attempt that failed although its handler raised nothing: it took too long, its
    transaction was not committed after ctx.complete, it returned what makes no sense."""
    ids = [key_of(job) for job, _ in watch.places]
    for job in await app._ask(lambda on: app.store.get(on, ids)):
        for error in job.errors:
            call = watch.places.get((job.id, error.attempt))
            found = surprise(error)
            if call is not None and not call.struck and found is not None:
                found.add_note(call.note())
                return found
    return None


MOST = 1000
AT_ONCE = 10_000
# After a failure the handlers that still run are not waited for as long as in production.
STOPPING = Stopping(finish=2.0, cancel=2.0)
# How often a drain lets jobs ask again for events that were just being sent. Senders of the drain
# itself have committed by then; one in a transaction of the test's own may stay open.
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
    limit: int = MOST,
) -> Tally:
    """Run what is enqueued, with what that enqueues, until nothing is due any more: the counts.

        await app.enqueue(send_invoice, 42)
        await drain(app)

    The jobs of a queue run one by one, in order; more `slots` let them run side by side. What a
    handler raises is raised here, as it was, and the rest stays in the queue; `raises=False` only
    counts it and goes on. `scheduled` also runs what is due later, retries included, by letting
    time pass. `twice` delivers every job a second time, as a lost worker would have it. `limit` is
    the most attempts, so that a job which enqueues itself for ever is found.
    """
    expect_ground(app, "drain")
    strikes = Strikes(app, faults)
    watch = Watch([strikes, *([Twice(app)] if twice else [])])
    draining = _Draining(
        app,
        watch,
        queues=_names(queues),
        slots=slots,
        raises=raises,
        limit=limit,
    )
    async with left_as_it_was(app):
        await draining.run()
        while scheduled and (due := await draining.next_due()):
            await advance_to(app, due)
            await draining.run()
        await draining.refuse_paused()
    strikes.expect_none_left(watch.calls)
    return draining.tally


class _DrainingWorker(Worker):
    """A worker that leads nothing: what a leader does for jobs, a drain does itself.

    It comes and goes at every drain: to be elected and to look after everything at once would be
    a third of what that costs. Its statements share two connections: each new one has to plan all
    of them anew.
    """

    _pool_size = 2

    def _hire(self, quota: Quota) -> Parts:
        crew = super()._hire(quota)
        crew.maintenance.stand_back()
        return crew


class _Draining:
    """One drain: rounds of a worker, each until nothing is ready."""

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
        self._tasks = watch.over(app._runnable_tasks())
        self._queues = queues
        self._slots = slots
        self._raises = raises
        self._limit = limit
        self._repeated_waits = 0
        self.tally = Tally()

    async def run(self) -> None:
        """Work until nothing is ready."""
        before: set[tuple[str, int]] = set()
        while jobs := await self._ready():
            ready = {job.queue for job in jobs}
            now = {(job.id, job.attempt) for job in jobs}
            if now == before:
                raise self._closed(ready)
            before = now
            left = self._limit - self._watch.calls.total()
            if left <= 0:
                raise self._endless()
            worker = self._worker(ready | await self._likely())
            if self._raises:
                self._watch.on_raise = worker.ask_to_stop
            await worker.drain(limit=left)
            if self._raises:
                await self._refuse_failures()

    def _worker(self, queues: set[str]) -> Worker:
        app = self._app
        worker = _DrainingWorker(
            app._connector,
            self._tasks,
            app.events,
            app.resources,
            # A test fires a schedule itself: app.run_schedule.
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

    async def _likely(self) -> set[str]:
        """The queues that more may come into meanwhile: else it would take one worker more."""
        queues = self._served({task.defaults.queue for task in self._app.tasks})
        return queues - set(await self._app.paused())

    async def _ready(self) -> list[Job]:
        """The ready jobs, after what the leader would do first."""
        store = self._app.store
        await self._app._ask(lambda on: store.expire(on, AT_ONCE))
        await self._app._ask(lambda on: store.promote(on, None, AT_ONCE))
        await self._app._ask(lambda on: Events(store).wake(on, AT_ONCE))
        jobs = await enqueued(self._app)
        if await self._repeat_waits(jobs):
            jobs = await enqueued(self._app)
        ready = [job for job in jobs if job.state == READY]
        queues = self._served({job.queue for job in ready}) - set(await self._app.paused())
        return [job for job in ready if job.queue in queues]

    async def _repeat_waits(self, jobs: list[Job]) -> bool:
        """Make jobs ready that were about to wait for an event while it was being sent.

        They ask again a second later. Whether a drain includes that second may not depend on how
        two jobs that it runs side by side meet.
        """
        served = self._served({job.queue for job in jobs})
        met = [job for job in jobs if job.queue in served and _met_sender(job)]
        if not met or self._repeated_waits == MAX_REPEATED_WAITS:
            return False
        self._repeated_waits += 1
        keys = [key_of(job.id) for job in met]
        await self._app._ask(lambda on: self._app.store.retry(on, keys))
        return True

    def _closed(self, queues: set[str]) -> NotDrained:
        return NotDrained(
            f"Jobs of {', '.join(sorted(queues))} are ready and may not run: a lane is paused, a "
            "window is closed or a limit is 0. Look with app.queue_settings() and app.limits(), or "
            "name the queues to drain: drain(app, queues=…)."
        )

    async def refuse_paused(self) -> None:
        """Raise if jobs stay behind only because their queue is paused: the test would pass."""
        paused = self._served(set(await self._app.paused()))
        held = [job for job in await enqueued(self._app) if job.state == READY]
        if held := [job for job in held if job.queue in paused]:
            queue, others = held[0].queue, len(held) - 1
            more = f" and {others} more" if others else ""
            raise NotDrained(
                f"The queue {queue} is paused, and job {held[0].id} of {held[0].task}{more} "
                f'cannot run. Let it with app.resume("{queue}"), or name the queues to drain: '
                "drain(app, queues=…)."
            )

    async def next_due(self) -> datetime | None:
        """When the next of the jobs is due that wait for their time, not for what is missing."""
        jobs = await enqueued(self._app)
        served = self._served({job.queue for job in jobs})
        due = [
            moment
            for job in jobs
            if job.queue in served and (moment := await self._due(job)) is not None
        ]
        return min(due, default=None)

    async def _due(self, job: Job) -> datetime | None:
        """When a job runs, whatever others do."""
        if job.state == SCHEDULED and job.stuck_since is None:
            return job.run_at
        if job.state != BLOCKED:
            return None
        looks, key = InsightQueries(self._app.store), key_of(job.id)
        waits = await self._app._ask(lambda on: looks.event_waits(on, key))
        return min((wait["until"] for wait in waits if wait["until"]), default=None)

    def _served(self, queues: set[str]) -> set[str]:
        return queues if self._queues is None else queues & self._queues

    async def _refuse_failures(self) -> None:
        """Raise what a handler raised, or tell of a failure that raised nothing."""
        if self._watch.raised:
            (_, first), *others = self._watch.raised
            for call, error in others:
                first.add_note(f"{call.note()} raised {type(error).__name__} as well.")
            raise first
        if self.tally.parked and (parked := await parked_job(self._app)):
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
    """Whether a job would wait for an event by now, had nobody been sending it at that moment."""
    return job.state == SCHEDULED and (job.reason or "").startswith("event:")


def _names(queues: Iterable[str] | str | None) -> frozenset[str] | None:
    if queues is None:
        return None
    return frozenset([queues] if isinstance(queues, str) else queues)
