"""Puts the parts of a worker together, and connects their callbacks."""

from __future__ import annotations

import logging
import os
import platform
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any
from uuid import UUID

from penstock.config import JobLog, Liveness, Pace, Upkeep
from penstock.connect.connector import TRY_AGAIN, Connector
from penstock.connect.tracing import Tracing
from penstock.lifecycle import DatabaseHealth, Service
from penstock.maintenance import Maintenance
from penstock.store import Answer, Pool, Settlement
from penstock.store.rules import Rules
from penstock.tasks import Registry, Timetable
from penstock.telemetry import Events, JobFinished, LeaseLapsed, SettleRefused
from penstock.worker.attempt import Attempt
from penstock.worker.children.imports import Imports
from penstock.worker.children.pool import ChildPool
from penstock.worker.claim.claimer import Claimer, Quota, Scanner
from penstock.worker.claim.dispatcher import Dispatcher
from penstock.worker.claim.mover import Mover
from penstock.worker.claim.queue import QueueState
from penstock.worker.heartbeat import Signals
from penstock.worker.lease import LeaseKeeper, Reconciler
from penstock.worker.limits.keeper import LimitKeeper
from penstock.worker.limits.rules import RulesReader
from penstock.worker.listener import Listener
from penstock.worker.run.budgets import Budgets, BudgetWriter
from penstock.worker.run.executor import Executor
from penstock.worker.run.journal import Journal
from penstock.worker.run.progress import ProgressWriter
from penstock.worker.run.resources import Resources, WorkerResources
from penstock.worker.run.suspects import Suspects
from penstock.worker.settle.report import JobLines, Tally, name_outcome
from penstock.worker.settle.settler import Settler
from penstock.worker.tenants import TenantFilter
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.worker")

# How long a rescue waits for outcomes of jobs under a lost lease.
WRITE_BEFORE_RESCUE_S = 5.0


class Parts:
    """All parts of a running worker. They are made at its start and dropped at its stop.

    Jobs go through `claim → dispatch → execute → settle`, with the lease, the listener and the
    maintenance beside them.
    """

    def __init__(
        self,
        link: Connector,
        pool: Pool,
        tasks: Registry,
        events: Events,
        resources: Resources,
        timetable: Timetable,
        *,
        name: str,
        states: dict[str, QueueState],
        tenants: TenantFilter,
        quota: Quota,
        tally: Tally,
        liveness: Liveness,
        pace: Pace,
        upkeep: Upkeep,
        log: JobLog,
        children: int,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        store, url = link.store, link.url
        health = DatabaseHealth(events, pool)
        self._events = events
        self._tracing = link.tracing and link.tracing.active()
        self._pace = pace
        self._upkeep = upkeep
        self.states = states
        for state in states.values():
            if tasks.has_only_batches(state.name):
                state.groups.expected_items = tasks.max_batch_size(state.name)
        self._tally = tally
        self.lines = JobLines() if log.completed else None
        self.quota = quota
        self._cancelled_early: list[tuple[int, UUID]] = []
        imports = Imports(tasks, resources)
        imports.check(tasks)
        self.resources = WorkerResources(
            resources, health, link.opened, imports.child_only_resources, timing
        )
        # For errors of statements that handlers run through the worker.
        explain = partial(link.translate_error, doubt=TRY_AGAIN, is_sent=True)
        self.budget_writer = BudgetWriter(pool, health)
        self.budgets = Budgets(pool, store, self.budget_writer, explain)
        self.progress = ProgressWriter(pool, store, health)
        self.settler = Settler(
            pool,
            store,
            health,
            partitions_ahead=upkeep.partitions_ahead,
            retry_most=pace.unwritten_retry,
            backoff=(timing.settle_retry, timing.settle_retry_most),
            report_after=liveness.lease / 2,
            before_settle=self.progress.flush_before_settle,
            on_settled=self._note_settled,
            on_refused=self._note_refused,
            on_flushed=self._claim_if_room,
            on_unwritten_changed=self._beat_soon,
        )
        journal = Journal(pool, store, explain, timing)
        self.suspects = Suspects(pool, store, health, timing)
        self.child_pool = ChildPool(
            partial(
                imports.plan,
                name,
                link.opened,
                upkeep.park_limit,
                self._tracing.inside if self._tracing else None,
                log,
            ),
            imports.tasks.keys(),
            journal,
            self.budgets,
            self.progress.report,
            events,
            self.suspects,
            max_children=children,
            timing=timing,
        )
        self.executor = Executor(
            tasks,
            store,
            self.resources,
            self.budgets,
            journal,
            self.progress.report,
            self.settler.submit,
            tracing=self._tracing,
            worker=name,
            threads=sum(state.slots.limit for state in states.values()),
            park_limit=upkeep.park_limit,
            log=log,
            child_pool=self.child_pool,
            suspects=self.suspects,
            timing=timing,
        )
        self._fixed_info = _describe_worker(states, tenants, tasks, timetable)
        self.lease_keeper = LeaseKeeper(
            url,
            pool,
            store,
            health,
            events,
            liveness,
            place=link.database.place,
            worker=name,
            info=self._lease_info,
        )
        self.limit_keeper = LimitKeeper(
            pool,
            store,
            self.lease_keeper,
            health,
            max_slots=_max_jobs(states, tasks),
            max_ahead=2 * pace.claim_most,
            on_room=self._start_waiting,
            timing=timing,
        )
        self.rules_reader = RulesReader(pool, store, health, list(states), self._apply, timing)
        self.mover = Mover(pool, store, health)
        self.dispatcher = Dispatcher(
            self.executor,
            self.limit_keeper,
            self.mover.move,
            states.values(),
            tasks.batched,
            self._claim_if_wanted,
            self._make_room_for_exclusive,
            upkeep.isolation_wait,
            timing,
        )
        self.listener = Listener(link.listen_url, pool, store, health)
        self.reconciler = Reconciler(
            pool, store, self.lease_keeper, health, self.known_jobs, pace.reconcile
        )
        self.maintenance = Maintenance(
            pool,
            store,
            health,
            events,
            self.lease_keeper.wait_for_lease,
            timetable,
            upkeep,
            max_pause=self._max_pause,
            before_rescue=self._write_lapsed,
        )
        self.claimers = {
            queue: Claimer(
                state,
                pool,
                store,
                self.lease_keeper,
                health,
                events,
                limit_keeper=self.limit_keeper,
                quota=quota,
                max_jobs=pace.claim_most,
                room=self._claim_room,
                on_claimed=self._start_claimed,
            )
            for queue, state in states.items()
        }
        self.scanners = {
            queue: Scanner(
                state,
                pool,
                store,
                health,
                min_interval=self._scan_interval,
                on_found=self.claimers[queue].wake,
            )
            for queue, state in states.items()
        }
        self._connect_parts()

    def _connect_parts(self) -> None:
        self.lease_keeper.on_signals = self._handle_signals
        self.lease_keeper.on_lapse = self._handle_lapse
        self.lease_keeper.on_lost_answer = self.reconciler.wake
        self.lease_keeper.on_exit = self.settler.report_before_exit
        self.listener.on_ready = self._handle_ready
        self.listener.on_due = self.maintenance.promoter.note_due
        self.listener.on_signal = self.lease_keeper.beat_soon
        self.listener.on_leader = self.maintenance.elect
        self.listener.on_settings = self.rules_reader.wake
        self.listener.on_schedules = self.maintenance.scheduler.note_change
        self.listener.on_grants = self.limit_keeper.note_change
        self.listener.on_waits = self.limit_keeper.note_wait
        self.listener.on_bucket = self._handle_closed_bucket
        self.budgets.has_rate = self.limit_keeper.book.has_rate
        self.budgets.on_close = self._handle_closed_bucket
        self.listener.on_reconnect = self._rescan_all
        for state in self.states.values():
            state.may_start = self.limit_keeper.may_start
            state.may_any_start = partial(self.limit_keeper.may_any_start, state.name)
            state.is_lane_stopped = partial(self.limit_keeper.book.is_lane_stopped, state.name)

    @property
    def services(self) -> list[Service]:
        return [
            self.resources,
            self.lease_keeper,
            self.listener,
            self.progress,
            self.budget_writer,
            self.reconciler,
            self.rules_reader,
            self.limit_keeper,
            self.mover,
            self.suspects,
            *self.scanners.values(),
            *self.claimers.values(),
            *self.maintenance.services,
        ]

    def stop_starting(self) -> None:
        """Start no claim and no job any more, because a stop was asked for."""
        self.quota.closed = True
        self.dispatcher.close()

    def _lease_info(self) -> dict[str, Any]:
        exclusive_job = self.dispatcher.reserved_for
        return {
            **self._fixed_info,
            "hears": self.listener.is_listening,
            "missing_resources": self.resources.problems,
            "alone": None if exclusive_job is None else str(exclusive_job),
            "children": self.child_pool.count,
            "children_most": self.child_pool.max_children,
            "unwritten": self.settler.unwritten,
        }

    def _beat_soon(self) -> None:
        """Send a heartbeat now, to report a change in this worker."""
        if self.lease_keeper.lease is not None:
            self.lease_keeper.beat_soon(self.lease_keeper.lease)

    # Claims

    def _claim_if_wanted(self, state: QueueState) -> None:
        claimer = self.claimers[state.name]
        # A claimer that is awake claims anyway.
        if not claimer.is_woken and state.wanted and state.cursors:
            claimer.wake()

    def _claim_room(self) -> int:
        """Return how many jobs a claim may take.

        The number is 0 while many outcomes are unwritten or a job must run alone. While the
        database refuses to write outcomes, it is 0, or 1 for a probe.
        """
        if self.dispatcher.is_reserved:
            return 0
        if self.settler.is_refused:
            is_idle = not self.dispatcher.jobs() and not self.mover.jobs()
            return int(self.settler.wants_probe and is_idle)
        return self._pace.unsettled_most - self.settler.unsettled

    @property
    def gives_up(self) -> bool:
        """Whether the worker claims no more, because the database has long refused outcomes."""
        return self.settler.is_refused and self.settler.is_stuck

    def note_unwritten(self) -> None:
        """Count the outcomes that are still unwritten after the settler was closed."""
        self._tally.unwritten += len(self.settler.list_given_up())

    def _claim_if_room(self) -> None:
        if self.settler.unsettled <= self._pace.unsettled_most // 2:
            for state in self.states.values():
                self._claim_if_wanted(state)

    async def _make_room_for_exclusive(self) -> None:
        """Prepare for a job that runs alone and may kill this worker.

        Prefetched jobs go back, so that they can begin elsewhere. Outcomes are written, so that
        their jobs need not run again.
        """
        async with self.lease_keeper.without_claims():
            self.dispatcher.release_prefetched()
        await self.settler.wait_until_written()

    def _scan_interval(self) -> float:
        return self._pace.rescan if self.listener.is_listening else self._pace.poll

    def _max_pause(self) -> float:
        most = self._upkeep.promote_most
        return most if self.listener.is_listening else min(most, self._pace.poll)

    # Rules

    def _apply(self, rules: Rules) -> None:
        for state in self.states.values():
            state.apply(rules)
        self.limit_keeper.apply(rules)
        self.dispatcher.recount()
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Start jobs that had to wait, because there may be room for them."""
        for state in self.states.values():
            self.dispatcher.start_ready(state)

    # News

    def _handle_ready(
        self, queue: str, lane: str | None, priority: int, ready_at: datetime
    ) -> None:
        state = self.states.get(queue)
        if state is None:
            return
        if lane is None:
            self.scanners[queue].scan_soon()
        else:
            state.cursors.lower(lane, priority, ready_at)
            self.claimers[queue].wake()

    def _rescan_all(self) -> None:
        self.rules_reader.read_soon()
        self.maintenance.scheduler.wake()
        for scanner in self.scanners.values():
            scanner.wake()

    def _handle_closed_bucket(self, key: str, seconds: float) -> None:
        """Handle a key that was closed for everybody, or opened again."""
        self.limit_keeper.note_closed(key, seconds)
        self.dispatcher.release_closed()

    def _handle_signals(self, signals: Signals) -> None:
        for job, token, _ in signals:
            if not self.dispatcher.cancel(job, token) and self.lease_keeper.is_claiming:
                # The claim's answer, with this job in it, may still be on its way.
                self._cancelled_early.append((job, token))

    def _start_claimed(self, state: QueueState) -> None:
        early, self._cancelled_early = self._cancelled_early, []
        for job, token in early:
            self.dispatcher.cancel(job, token)
        self.dispatcher.start_ready(state)

    def known_jobs(self) -> list[int]:
        return [*self.dispatcher.jobs(), *self.mover.jobs(), *self.settler.jobs()]

    def _handle_lapse(self, lease: int) -> None:
        running = len(self.dispatcher.running)
        self._events.emit(LeaseLapsed(lease, running))
        logger.warning(
            "Lease %d is lost, so its running jobs are stopped (number: %d).", lease, running
        )
        self.limit_keeper.book.forget()
        self.dispatcher.drop_lost()
        self.rules_reader.read_soon()
        self.settler.note_lapse()
        self.maintenance.rescuer.wake()

    async def _write_lapsed(self) -> None:
        """Write outcomes of jobs under a lost lease, before a rescue runs these jobs again."""
        if self.settler.has_lapsed:
            await self.lease_keeper.wait_for_lease()
            await self.settler.try_lapsed(WRITE_BEFORE_RESCUE_S)

    # Outcomes

    def _note_settled(self, batch: Sequence[Settlement]) -> None:
        self._tally.add(batch)
        if self.lines is not None:
            self.lines.settled(batch)
        for settlement in batch:
            if (attempt := settlement.source) is not None and attempt.job.batch is not None:
                self.maintenance.folder.note_settled()
                break
        if any(settlement.transition.state == "blocked" for settlement in batch):
            self.maintenance.waker.note_wait()
        if self._tracing is not None:
            _settle_traces(self._tracing, batch)
        if self._events.has_subscribers(JobFinished):
            for settlement in batch:
                self._emit_finished(settlement)

    def _emit_finished(self, settlement: Settlement) -> None:
        attempt: Attempt | None = settlement.source
        if attempt is None:
            return
        job, transition = attempt.job, settlement.transition
        self._events.emit(
            JobFinished(
                str(job.id),
                job.task,
                job.queue,
                job.number,
                transition.state,
                transition.reason,
                attempt.seconds,
                name_outcome(transition),
                _waiting_seconds(attempt),
            )
        )

    def _note_refused(self, settlement: Settlement, answer: Answer) -> None:
        attempt: Attempt | None = settlement.source
        if attempt is not None and attempt.is_uncertain:
            return
        if answer != "cancelled":
            self._tally.refused += 1
            logger.warning(
                "The outcome of job %d was refused: the job is no longer this worker's.",
                settlement.id,
            )
        task, number = (attempt.job.task, attempt.job.number) if attempt else ("", 0)
        self._events.emit(SettleRefused(str(settlement.id), task, number, answer))


def _waiting_seconds(attempt: Attempt) -> float:
    """Return how many seconds a job was ready before it began.

    The clocks of the database and of this machine may differ a little.
    """
    ready_at: datetime = attempt.job.row["ready_at"]
    since = (datetime.now(UTC) - ready_at).total_seconds()
    return max(0.0, since - (time.monotonic() - attempt.started_at))


def _settle_traces(tracing: Tracing, batch: Sequence[Settlement]) -> None:
    """Tell the tracing which attempts are settled."""
    for settlement in batch:
        attempt: Attempt | None = settlement.source
        if attempt is None:
            continue
        if attempt.trace is not None:
            attempt.trace.settled()
        else:
            tracing.ran(attempt.job, attempt.seconds, settlement.transition)


def _max_jobs(states: dict[str, QueueState], tasks: Registry) -> int:
    """Return how many jobs may run at once. A shared call runs many jobs in one slot."""
    widest = max(tasks.batched.values(), default=1)
    return widest * sum(state.slots.limit for state in states.values())


def _describe_worker(
    states: dict[str, QueueState], tenants: TenantFilter, tasks: Registry, timetable: Timetable
) -> dict[str, Any]:
    """Return the description of the worker that is stored with its lease, for people to read."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": platform.python_version(),
        "penstock": version("penstock"),
        "queues": {name: state.slots.limit for name, state in states.items()},
        "calls": {name: size for name in states if (size := tasks.max_batch_size(name))},
        "tenants": None if tenants.only is None else sorted(tenants.only),
        "except_tenants": sorted(tenants.excepted),
        "tasks": tasks.names(),
        "schedules": timetable.names(),
    }
