"""Look at the queue: every question reads a bounded number of rows, however long the backlog is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from penstock.errors import JobNotFound
from penstock.insights.counts import Count, Depth
from penstock.insights.explanation import waits_of
from penstock.insights.health import Health, Seen, Thresholds, health_of
from penstock.insights.job import (
    STEPS,
    EventWait,
    FailedJob,
    JobInsight,
    RunningJob,
    StepInsight,
    failed_from,
    place_from,
    running_from,
    steps_from,
    timeline_of,
)
from penstock.insights.limits import Limits, limits_from
from penstock.insights.queues import (
    Lanes,
    QueueInsight,
    QueuePage,
    glance_from,
    lanes_from,
    page_from,
    queues_from,
)
from penstock.insights.throughput import Throughput, throughput_from
from penstock.insights.waits import Turn, keys_of, turn_from
from penstock.insights.workers import WorkerInsight, WorkerPage, workers_from
from penstock.job import BLOCKED, READY, SCHEDULED, Job
from penstock.store import Executor, Store, key_of
from penstock.store.insights import InsightQueries
from penstock.store.unique import Holder, UniqueKeys
from penstock.store.workflows import Workflows
from penstock.tasks.workflow import Awaited

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
COUNTED = 100_000
COUNTED_OFTEN = 10_000
QUEUES = 1000
QUEUES_COUNTED = 100_000
QUEUES_AT_A_GLANCE = 200
WORKERS = 1000
# Of each lane that is shown; and how much is counted before, to know which are the largest.
COUNTED_OF_LANE = 10_000
COUNTED_OF_LANES = 100_000
LINES = 20_000
LINES_OFTEN = 1000
LANES_OFTEN = 5
AHEAD = 1000
# Some 100,000 to 200,000 jobs of usual size.
BLOCKS = 4096
BLOCKS_OFTEN = 512
_LAST_ID = 2**63 - 1


class Overview(Struct, frozen=True, kw_only=True):
    """Everything at one glance."""

    queues: tuple[QueueInsight, ...]
    lanes: Lanes | None
    """The largest lanes of the fair queue in which most jobs wait."""
    workers: tuple[WorkerInsight, ...]
    running: tuple[RunningJob, ...]
    failures: tuple[FailedJob, ...]
    throughput: tuple[Throughput, ...]
    queues_left_out: Count = Count(0)
    """How many queues are not shown; the least busy ones."""
    workers_left_out: int = 0


class Insights:
    """The questions of those who look, on one pool or connection.

    insights = Insights(store, pool)
    for queue in await insights.queues():
        print(queue.name, queue.ready, queue.waited)
    """

    def __init__(self, store: Store, on: Executor) -> None:
        self._store = store
        self._looks = InsightQueries(store)
        self._on = on

    async def queues(self, *, count_to: int = COUNTED, limit: int = QUEUES) -> list[QueueInsight]:
        """The queues that have jobs, workers or settings, by name; see `queue_page`."""
        return list((await self.queue_page(count_to=count_to, limit=limit)).queues)

    async def queues_named(
        self, names: Sequence[str], *, count_to: int = COUNTED
    ) -> dict[str, QueueInsight]:
        """These queues, however many others there are; one that nobody uses is empty."""
        rows = await self._looks.queues(self._on, count_to, 0, 0, names)
        found = {each.name: each for each in queues_from(rows, await self.workers(), count_to)}
        return {name: found.get(name) or QueueInsight.empty(name) for name in names}

    async def queue_page(
        self, *, count_to: int = COUNTED, limit: int = QUEUES, among: int = QUEUES_COUNTED
    ) -> QueuePage:
        """The same, with how many are left out: of those with ready jobs the first are shown.

        `among` is how far those are counted.
        """
        rows = await self._looks.queues(self._on, count_to, limit, among)
        return page_from(rows, await self.workers(), count_to, among)

    async def next_queues(self, *, after: str | None = None, limit: int = 100) -> QueuePage:
        """So many queues of any kind, by name, behind the last of the page before."""
        rows = await self._looks.queues(
            self._on, COUNTED, limit, QUEUES_COUNTED, after=after, page=limit
        )
        last = rows[-1]["name"] if len(rows) == limit else None
        workers = await self.workers()
        return page_from(rows, workers, COUNTED, QUEUES_COUNTED, after=after or "", until=last)

    async def _glance(self, workers: Sequence[WorkerInsight], limit: int) -> QueuePage:
        """At most `limit` queues of any kind, the busy ones first."""
        rows = await self._looks.queues(
            self._on, COUNTED_OFTEN, limit, COUNTED_OFTEN, page=limit, busy_first=True
        )
        return glance_from(rows, workers, COUNTED_OFTEN, COUNTED_OFTEN, limit)

    async def lanes(self, queue: str, *, limit: int = 50, start: str = "") -> Lanes:
        """The lanes of a queue with ready or running jobs or settings, the largest first.

        Of very many the first 20,000 are looked at, from `start` on, by name.
        """
        return await self._lanes(queue, start, limit, lines=LINES, seen=COUNTED_OF_LANES)

    async def _lanes(self, queue: str, start: str, limit: int, *, lines: int, seen: int) -> Lanes:
        most = min(COUNTED_OF_LANE, seen // 10)
        rows = await self._looks.lanes(
            self._on, queue, start=start, lines=lines, shown=limit, most=most, seen=seen
        )
        return lanes_from(queue, rows, most=most, running=most)

    async def _fairest(self, queues: Sequence[QueueInsight]) -> Lanes | None:
        busy = [queue for queue in queues if queue.is_fair and queue.ready.number]
        if not busy:
            return None
        busiest = max(busy, key=lambda queue: queue.ready.number)
        return await self._lanes(
            busiest.name, "", LANES_OFTEN, lines=LINES_OFTEN, seen=COUNTED_OFTEN
        )

    async def limits(
        self, keys: Sequence[str] | None = None, *, limit: int = 200, after: str | None = None
    ) -> Limits:
        """The limits and the keys in use under them, those that hold up jobs first.

        Pass `limits.after` as `after` for the next page. A limit that changes its place meanwhile
        may be missed or seen twice.
        """
        rows = await self._looks.limits(
            self._on, keys, limit, lines=LINES, seen=COUNTED_OFTEN, after=after
        )
        return limits_from(rows, limit)

    async def late(
        self,
        limit: int = 20,
        *,
        states: Sequence[str] | None = None,
        queue: str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        subject: str | None = None,
        tag: str | None = None,
    ) -> list[tuple[Job, float]]:
        """The jobs past their soft deadline, the latest first, and by how many seconds."""
        rows = await self._looks.late(
            self._on, limit, COUNTED_OFTEN, states, queue, task, tenant, subject, tag
        )
        jobs = {job.id: job for job in await self._store.get(self._on, [row["id"] for row in rows])}
        found = ((jobs.get(str(row["id"])), row["late"]) for row in rows)
        return [(job, late) for job, late in found if job is not None]

    async def lateness(self, jobs: Sequence[Job]) -> dict[str, float]:
        """By how many seconds those of some jobs are late that are, by their ids."""
        live = [key_of(job.id) for job in jobs if not job.is_final]
        rows = await self._looks.lateness(self._on, live) if live else []
        return {str(row["id"]): row["late"] for row in rows}

    async def workers(self) -> list[WorkerInsight]:
        """The workers that hold a lease, and those whose lease has expired a moment ago.

        See `worker_page`.
        """
        return list((await self.worker_page()).workers)

    async def worker_page(self, *, limit: int = WORKERS, after: str | None = None) -> WorkerPage:
        """The same, with how many are left out. If there are very many, living ones come first.

        Pass `page.after` as `after` for the next page.
        """
        behind = None if after is None else key_of(after)
        rows = await self._looks.workers(self._on, COUNTED_OFTEN, limit, behind)
        return workers_from(rows, COUNTED_OFTEN, limit)

    async def running(self, limit: int = 20) -> list[RunningJob]:
        """The jobs that have been running for longest."""
        rows = await self._looks.running(self._on, limit, COUNTED_OFTEN)
        return [running_from(row) for row in rows]

    async def failures(self, limit: int = 20) -> list[FailedJob]:
        """The jobs that failed last, newest first."""
        return [failed_from(row) for row in await self._looks.failures(self._on, limit)]

    async def throughput(
        self, windows: Sequence[float] = (MINUTE, HOUR, DAY), *, blocks: int = BLOCKS
    ) -> list[Throughput]:
        """What ended within the last so many seconds, by task, for each window."""
        rows = await self._looks.throughput(self._on, sorted(windows), blocks)
        return throughput_from(rows)

    async def overview(self, *, running: int = 20, failures: int = 10) -> Overview:
        """All that a screen shows which is drawn anew every second or two."""
        workers = await self.worker_page()
        page = await self._glance(workers.workers, QUEUES_AT_A_GLANCE)
        windows = (MINUTE / 6, MINUTE)
        return Overview(
            queues=page.queues,
            lanes=await self._fairest(page.queues),
            workers=workers.workers,
            running=tuple(await self.running(running)),
            failures=tuple(await self.failures(failures)),
            throughput=tuple(await self.throughput(windows, blocks=BLOCKS_OFTEN)),
            queues_left_out=page.left_out,
            workers_left_out=workers.left_out,
        )

    async def depths(self, *, count_to: int = COUNTED, queues: int = QUEUES) -> list[Depth]:
        """The jobs of each queue in each live state, for gauges.

        Ready jobs are counted in so many queues, the first by name.
        """
        return [Depth(**row) for row in await self._looks.depths(self._on, count_to, queues)]

    async def health(self, thresholds: Thresholds | None = None) -> Health:
        """Whether all is well, in one word, with what speaks against it and the numbers."""
        limits = thresholds or Thresholds()
        began = time.monotonic()
        await self._looks.time(self._on)
        latency = time.monotonic() - began
        windows = sorted({limits.window, HOUR, DAY})
        found = await self.throughput(windows, blocks=BLOCKS_OFTEN)
        by_window = dict(zip(windows, found, strict=True))
        workers = await self.worker_page()
        page = await self._glance(workers.workers, QUEUES)
        seen = Seen(
            latency=latency,
            queues=page.queues,
            queues_left_out=page.left_out,
            workers=workers.workers,
            living_left_out=workers.living_left_out,
            recent=by_window[limits.window],
            hour=by_window[HOUR],
            day=by_window[DAY],
        )
        return health_of(seen, limits)

    async def job(self, job_id: str) -> JobInsight:
        """One job with all that explains its state; JobNotFound if there is none."""
        key = key_of(job_id)
        jobs = await self._store.get(self._on, [key])
        if not jobs:
            raise JobNotFound(job_id)
        [job] = jobs
        place = place_from(await self._looks.place(self._on, key))
        turn = await self._turn(job) if job.state in (READY, SCHEDULED) else None
        waits = waits_of(
            job,
            place,
            turn or Turn(),
            paused=await self._store.paused(self._on),
            workers=await self.workers(),
            events=await self._event_waits(job),
            parents=await self._parents(job),
        )
        return JobInsight(
            job=job,
            place=place,
            turn=turn,
            waits=waits,
            timeline=timeline_of(job),
            steps=await self._steps(key),
            holder=await self._holder(job),
        )

    async def _holder(self, job: Job) -> Holder | None:
        if job.unique_key is None:
            return None
        return (await UniqueKeys(self._store).holders(self._on, [key_of(job.id)])).get(job.id)

    async def _steps(self, key: int) -> tuple[StepInsight, ...]:
        return steps_from(await self._looks.steps(self._on, key, STEPS))

    async def _event_waits(self, job: Job) -> list[EventWait]:
        if job.state != BLOCKED:
            return []
        rows = await self._looks.event_waits(self._on, key_of(job.id))
        return [EventWait(**row) for row in rows]

    async def _parents(self, job: Job) -> list[Awaited]:
        if job.state != BLOCKED or job.workflow is None:
            return []
        return await Workflows(self._store).awaited(self._on, key_of(job.id))

    async def _turn(self, job: Job) -> Turn:
        row = await self._looks.turn(self._on, key_of(job.id), AHEAD)
        keys = keys_of(job)
        limits = await self.limits(keys, limit=len(keys))
        return turn_from(row, limits.limits, AHEAD)

    async def last_before(self, moment: datetime) -> int:
        """The highest id of the jobs that were enqueued before a moment; 0 if there is none.

        Ids rise with time, so this halves their range: some thirty looks at single rows.
        """
        row = await self._looks.last_job_up_to(self._on, _LAST_ID)
        if row is None:
            return 0
        if row["created_at"] < moment:
            return int(row["id"])
        low, high = 0, int(row["id"])
        while high - low > 1:
            middle = (low + high) // 2
            row = await self._looks.last_job_up_to(self._on, middle)
            if row is None or row["created_at"] < moment:
                low = middle
            else:
                high = min(high, int(row["id"]))
        return low
