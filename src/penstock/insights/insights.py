"""Read the state of the queue. Each query reads a bounded number of rows, however many exist."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from penstock.errors import JobNotFound
from penstock.insights.counts import Count, Depth
from penstock.insights.explanation import list_waits
from penstock.insights.health import Health, HealthFacts, Thresholds, health_of
from penstock.insights.job import (
    MAX_STEPS,
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
    busiest_from,
    lanes_from,
    page_from,
    queues_from,
)
from penstock.insights.throughput import Throughput, throughput_from
from penstock.insights.waits import QueuePosition, limit_keys, position_from
from penstock.insights.workers import WorkerInsight, WorkerPage, workers_from
from penstock.job import BLOCKED, READY, SCHEDULED, Job
from penstock.store import Executor, Store, key_of
from penstock.store.insights import InsightQueries, KeyHolder, UniqueKeys
from penstock.store.workflows import Workflows
from penstock.tasks.workflow import Awaited

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
# How many rows one query counts. Queries that screens repeat every second or two, or that servers
# repeat for many clients, have the lower bounds, whose names end in OFTEN.
MAX_COUNTED = 100_000
MAX_COUNTED_OFTEN = 10_000
MAX_QUEUES = 1000
MAX_QUEUES_COUNTED = 100_000
MAX_OVERVIEW_QUEUES = 200
MAX_WORKERS = 1000
# How many jobs are counted in each lane that is shown, and in all lanes, to find the largest.
MAX_COUNTED_PER_LANE = 10_000
MAX_COUNTED_IN_LANES = 100_000
MAX_LANES_SCANNED = 20_000
MAX_LANES_SCANNED_OFTEN = 1000
MAX_OVERVIEW_LANES = 5
MAX_COUNTED_AHEAD = 1000
# These hold some 100,000 to 200,000 jobs of usual size.
MAX_HISTORY_BLOCKS = 4096
MAX_HISTORY_BLOCKS_OFTEN = 512
_LAST_ID = 2**63 - 1


class Overview(Struct, frozen=True, kw_only=True):
    """The state of the whole system: queues, workers, running jobs, failures and throughput."""

    queues: tuple[QueueInsight, ...]
    lanes: Lanes | None
    """The largest lanes of the fair queue with the most ready jobs."""
    workers: tuple[WorkerInsight, ...]
    running: tuple[RunningJob, ...]
    failures: tuple[FailedJob, ...]
    throughput: tuple[Throughput, ...]
    queues_left_out: Count = Count(0)
    """How many queues are left out. These are the least busy."""
    workers_left_out: int = 0


class Insights:
    """Reads the state of queues, workers, limits and jobs, on one pool or connection.

    insights = Insights(store, pool)
    for queue in await insights.queues():
        print(queue.name, queue.ready, queue.waited)
    """

    def __init__(self, store: Store, on: Executor) -> None:
        self._store = store
        self._queries = InsightQueries(store)
        self._on = on

    async def queues(
        self, *, count_to: int = MAX_COUNTED, limit: int = MAX_QUEUES
    ) -> list[QueueInsight]:
        """Return the queues that have jobs, workers or settings, by name. See `queue_page`."""
        return list((await self.queue_page(count_to=count_to, limit=limit)).queues)

    async def queues_named(
        self, names: Sequence[str], *, count_to: int = MAX_COUNTED
    ) -> dict[str, QueueInsight]:
        """Return queues by their names. A queue that nobody uses has an empty insight."""
        rows = await self._queries.queues(self._on, count_to, 0, 0, names)
        used = {each.name: each for each in queues_from(rows, await self.workers(), count_to)}
        return {name: used.get(name) or QueueInsight.empty(name) for name in names}

    async def queue_page(
        self,
        *,
        count_to: int = MAX_COUNTED,
        limit: int = MAX_QUEUES,
        among: int = MAX_QUEUES_COUNTED,
    ) -> QueuePage:
        """Return the queues as `queues` does, and how many are left out.

        Of the queues with ready jobs, the first `limit` by name are returned. At most `among` of
        them are counted to find out how many are left out.
        """
        rows = await self._queries.queues(self._on, count_to, limit, among)
        return page_from(rows, await self.workers(), count_to, among)

    async def next_queues(self, *, after: str | None = None, limit: int = 100) -> QueuePage:
        """Return the next page of queues of any kind, by name. Pass `page.after` as `after`."""
        rows = await self._queries.queues(
            self._on, MAX_COUNTED, limit, MAX_QUEUES_COUNTED, after=after, page=limit
        )
        last = rows[-1]["name"] if len(rows) == limit else None
        workers = await self.workers()
        return page_from(
            rows, workers, MAX_COUNTED, MAX_QUEUES_COUNTED, after=after or "", until=last
        )

    async def _busiest_queues(self, workers: Sequence[WorkerInsight], limit: int) -> QueuePage:
        """Return at most `limit` queues of any kind, the busy ones first."""
        rows = await self._queries.queues(
            self._on, MAX_COUNTED_OFTEN, limit, MAX_COUNTED_OFTEN, page=limit, busy_first=True
        )
        return busiest_from(rows, workers, MAX_COUNTED_OFTEN, MAX_COUNTED_OFTEN, limit)

    async def lanes(self, queue: str, *, limit: int = 50, start: str = "") -> Lanes:
        """Return the lanes of a queue with ready or running jobs or settings, the largest first.

        At most 20,000 lanes are examined, in the order of their names, beginning with `start`.
        """
        return await self._lanes(
            queue, start, limit, max_scanned=MAX_LANES_SCANNED, max_counted=MAX_COUNTED_IN_LANES
        )

    async def _lanes(
        self, queue: str, start: str, limit: int, *, max_scanned: int, max_counted: int
    ) -> Lanes:
        per_lane = min(MAX_COUNTED_PER_LANE, max_counted // 10)
        rows = await self._queries.lanes(
            self._on,
            queue,
            start=start,
            max_scanned=max_scanned,
            limit=limit,
            count_to=per_lane,
            max_counted=max_counted,
        )
        return lanes_from(queue, rows, max_ready=per_lane, max_running=per_lane)

    async def _largest_lanes(self, queues: Sequence[QueueInsight]) -> Lanes | None:
        busy = [queue for queue in queues if queue.is_fair and queue.ready.number]
        if not busy:
            return None
        busiest = max(busy, key=lambda queue: queue.ready.number)
        return await self._lanes(
            busiest.name,
            "",
            MAX_OVERVIEW_LANES,
            max_scanned=MAX_LANES_SCANNED_OFTEN,
            max_counted=MAX_COUNTED_OFTEN,
        )

    async def limits(
        self, keys: Sequence[str] | None = None, *, limit: int = 200, after: str | None = None
    ) -> Limits:
        """Return the limits and the keys in use under them, those that hold up jobs first.

        Pass `limits.after` as `after` for the next page. A limit whose place in this order changes
        meanwhile may be missing or appear twice.
        """
        rows = await self._queries.limits(
            self._on,
            keys,
            limit,
            max_scanned=MAX_LANES_SCANNED,
            max_counted=MAX_COUNTED_OFTEN,
            after=after,
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
        """Return the jobs past their soft deadline and by how many seconds, the latest first."""
        rows = await self._queries.late(
            self._on, limit, MAX_COUNTED_OFTEN, states, queue, task, tenant, subject, tag
        )
        jobs = {job.id: job for job in await self._store.get(self._on, [row["id"] for row in rows])}
        late_jobs = ((jobs.get(str(row["id"])), row["late"]) for row in rows)
        # A job may have been deleted between the two queries.
        return [(job, late) for job, late in late_jobs if job is not None]

    async def lateness(self, jobs: Sequence[Job]) -> dict[str, float]:
        """Return by how many seconds jobs are late, by id. Jobs that are not late are left out."""
        live = [key_of(job.id) for job in jobs if not job.is_final]
        rows = await self._queries.lateness(self._on, live) if live else []
        return {str(row["id"]): row["late"] for row in rows}

    async def workers(self) -> list[WorkerInsight]:
        """Return the workers that hold a lease, and those whose lease expired a moment ago.

        At most as many are returned as on one page of `worker_page`.
        """
        return list((await self.worker_page()).workers)

    async def worker_page(
        self, *, limit: int = MAX_WORKERS, after: str | None = None
    ) -> WorkerPage:
        """Return workers as `workers` does, living ones first, and how many are left out.

        Pass `page.after` as `after` for the next page.
        """
        after_key = None if after is None else key_of(after)
        rows = await self._queries.workers(self._on, MAX_COUNTED_OFTEN, limit, after_key)
        return workers_from(rows, MAX_COUNTED_OFTEN, limit)

    async def running(self, limit: int = 20) -> list[RunningJob]:
        """Return the jobs that have been running for longest."""
        rows = await self._queries.running(self._on, limit, MAX_COUNTED_OFTEN)
        return [running_from(row) for row in rows]

    async def failures(self, limit: int = 20) -> list[FailedJob]:
        """Return the jobs that failed last, newest first."""
        return [failed_from(row) for row in await self._queries.failures(self._on, limit)]

    async def throughput(
        self,
        windows: Sequence[float] = (MINUTE_S, HOUR_S, DAY_S),
        *,
        blocks: int = MAX_HISTORY_BLOCKS,
    ) -> list[Throughput]:
        """Return how many jobs ended within each window, by task. Windows are in seconds."""
        rows = await self._queries.throughput(self._on, sorted(windows), blocks)
        return throughput_from(rows)

    async def overview(self, *, running: int = 20, failures: int = 10) -> Overview:
        """Return all that a status screen shows. It is cheap enough to read every second or two."""
        workers = await self.worker_page()
        page = await self._busiest_queues(workers.workers, MAX_OVERVIEW_QUEUES)
        windows = (MINUTE_S / 6, MINUTE_S)
        return Overview(
            queues=page.queues,
            lanes=await self._largest_lanes(page.queues),
            workers=workers.workers,
            running=tuple(await self.running(running)),
            failures=tuple(await self.failures(failures)),
            throughput=tuple(await self.throughput(windows, blocks=MAX_HISTORY_BLOCKS_OFTEN)),
            queues_left_out=page.left_out,
            workers_left_out=workers.left_out,
        )

    async def depths(self, *, count_to: int = MAX_COUNTED, queues: int = MAX_QUEUES) -> list[Depth]:
        """Return the number of jobs of each queue in each live state, for gauges.

        Ready jobs are counted in the first `queues` queues by name.
        """
        return [Depth(**row) for row in await self._queries.depths(self._on, count_to, queues)]

    async def health(self, thresholds: Thresholds | None = None) -> Health:
        """Judge the health of the queue by thresholds: a status, its causes and the numbers."""
        thresholds = thresholds or Thresholds()
        began = time.monotonic()
        await self._queries.time(self._on)
        latency = time.monotonic() - began
        windows = sorted({thresholds.window, HOUR_S, DAY_S})
        throughputs = await self.throughput(windows, blocks=MAX_HISTORY_BLOCKS_OFTEN)
        by_window = dict(zip(windows, throughputs, strict=True))
        workers = await self.worker_page()
        page = await self._busiest_queues(workers.workers, MAX_QUEUES)
        facts = HealthFacts(
            latency=latency,
            queues=page.queues,
            queues_left_out=page.left_out,
            workers=workers.workers,
            living_left_out=workers.living_left_out,
            recent=by_window[thresholds.window],
            hour=by_window[HOUR_S],
            day=by_window[DAY_S],
        )
        return health_of(facts, thresholds)

    async def job(self, job_id: str) -> JobInsight:
        """Return a job with everything that explains its state. Raises JobNotFound."""
        key = key_of(job_id)
        jobs = await self._store.get(self._on, [key])
        if not jobs:
            raise JobNotFound(job_id)
        [job] = jobs
        place = place_from(await self._queries.place(self._on, key))
        is_queued = job.state in (READY, SCHEDULED)
        position = await self._queue_position(job) if is_queued else None
        waits = list_waits(
            job,
            place,
            position or QueuePosition(),
            paused=await self._store.paused(self._on),
            workers=await self.workers(),
            events=await self._event_waits(job),
            parents=await self._parents(job),
        )
        return JobInsight(
            job=job,
            place=place,
            turn=position,
            waits=waits,
            timeline=timeline_of(job),
            steps=await self._steps(key),
            holder=await self._holder(job),
        )

    async def _holder(self, job: Job) -> KeyHolder | None:
        if job.unique_key is None:
            return None
        return (await UniqueKeys(self._store).holders(self._on, [key_of(job.id)])).get(job.id)

    async def _steps(self, key: int) -> tuple[StepInsight, ...]:
        return steps_from(await self._queries.steps(self._on, key, MAX_STEPS))

    async def _event_waits(self, job: Job) -> list[EventWait]:
        if job.state != BLOCKED:
            return []
        rows = await self._queries.event_waits(self._on, key_of(job.id))
        return [EventWait(**row) for row in rows]

    async def _parents(self, job: Job) -> list[Awaited]:
        if job.state != BLOCKED or job.workflow is None:
            return []
        return await Workflows(self._store).awaited(self._on, key_of(job.id))

    async def _queue_position(self, job: Job) -> QueuePosition:
        row = await self._queries.turn(self._on, key_of(job.id), MAX_COUNTED_AHEAD)
        keys = limit_keys(job)
        limits = await self.limits(keys, limit=len(keys))
        return position_from(row, limits.limits, MAX_COUNTED_AHEAD)

    async def last_before(self, moment: datetime) -> int:
        """Return the highest id of the jobs that were enqueued before a moment; 0 if there is none.

        Ids rise with time, so a binary search finds it with some thirty queries of single rows.
        """
        row = await self._queries.last_job_up_to(self._on, _LAST_ID)
        if row is None:
            return 0
        if row["created_at"] < moment:
            return int(row["id"])
        low, high = 0, int(row["id"])
        while high - low > 1:
            middle = (low + high) // 2
            row = await self._queries.last_job_up_to(self._on, middle)
            if row is None or row["created_at"] < moment:
                low = middle
            else:
                high = min(high, int(row["id"]))
        return low
