"""Runs attempts in child processes, which are kept warm and run one attempt at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from penstock.errors import ConfigError, StaleAttempt
from penstock.isolation import child as child_module
from penstock.isolation.client import SupervisorClient
from penstock.isolation.death import Cause, Death, death_of_supervisor
from penstock.isolation.protocol import ChildPlan
from penstock.outcome import Died, TimedOut
from penstock.store import ClaimedJob
from penstock.tasks import Task
from penstock.tasks.settings import Process
from penstock.telemetry import ChildDied, Events
from penstock.worker.attempt import Attempt
from penstock.worker.children import logs
from penstock.worker.children.assignment import (
    Assignment,
    ChildReply,
    LostJob,
    NoProcess,
    NotStarted,
    outcome_of_death,
)
from penstock.worker.children.channel import ChildConnection
from penstock.worker.children.messages import (
    Abandoned,
    AttemptEnded,
    CallRequest,
    ChildReady,
    FromChild,
    Idle,
    Leave,
    Logged,
    ProgressReport,
    StopAttempt,
)
from penstock.worker.children.remote import build_calls
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.context import Report
from penstock.worker.run.journal import Journal
from penstock.worker.run.suspects import MarkRefused, Suspects
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.isolation")

# The settings of a job that is isolated only because it is a suspect.
SUSPECT_PROCESS: Final = Process()
EXIT_WAIT_S: Final = 5.0
# While the supervisor still imports, its socket takes at most this many start requests.
MAX_STARTING: Final = 64
MAX_CHILDREN: Final = 500
MISSING_MAIN_GUARD: Final = (
    "A child process imports the program to find its tasks, and the program starts a worker when "
    'it is imported. Start it under `if __name__ == "__main__":`, as for multiprocessing.'
)


def parse_children(children: int | None) -> int:
    """Check how many child processes a worker may have. None means one for each processor."""
    if children is None:
        return os.cpu_count() or 1
    if type(children) is not int or not 1 <= children <= MAX_CHILDREN:
        raise ConfigError("children", children, f"a whole number from 1 to {MAX_CHILDREN}, or None")
    return children


class ChildPool:
    """The child processes of one worker, and the attempts that wait for one."""

    def __init__(
        self,
        plan: Callable[[], ChildPlan],
        names: Collection[str],
        journal: Journal,
        budgets: Budgets,
        report: Report,
        events: Events,
        suspects: Suspects,
        *,
        max_children: int,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        if child_module.is_preparing:
            raise RuntimeError(MISSING_MAIN_GUARD)
        self._plan = plan
        self._names = names
        self._report = report
        self._events = events
        self._suspects = suspects
        self._mark_tasks: set[asyncio.Task[None]] = set()
        self._max_children = max_children
        self._timing = timing
        self._loop = asyncio.get_running_loop()
        self._supervisor: SupervisorClient | None = None
        self._children: dict[int, ChildConnection] = {}
        self._leaving: dict[int, ChildConnection] = {}
        self._all_left = asyncio.Event()
        self._all_left.set()
        self._idle: list[ChildConnection] = []
        self._waiting: deque[Assignment] = deque()
        self._failed_starts = 0
        self._start_problem, self._no_start_until = "", 0.0
        self._closing: set[asyncio.Future[None]] = set()
        self._start_timer: asyncio.TimerHandle | None = None
        self._wait_timer: asyncio.TimerHandle | None = None
        self._calls = build_calls(journal, budgets)

    @property
    def max_children(self) -> int:
        """How many children there may be."""
        return self._max_children

    @property
    def count(self) -> int:
        """How many children there are. Safe to call from any thread."""
        return len(self._children)

    def process_of(self, task: Task[..., Any], job: ClaimedJob) -> Process | None:
        """Return how to isolate an attempt, or None if it runs in the worker's own process."""
        isolate = task.settings.isolate
        if isolate:
            return isolate
        runs_suspect = job.row["suspect"] and task.name in self._names
        return SUSPECT_PROCESS if runs_suspect else None

    async def run(
        self, attempt: Attempt, process: Process, rated_keys: Sequence[str]
    ) -> ChildReply:
        """Run an attempt in a child and return the child's reply.

        The reply is None if the attempt was stopped and has no outcome. Raises NoProcess if no
        child can run it, NotStarted if no child had time for it, LostJob if the job was taken back
        before the start, MarkRefused if the database refuses to mark the attempt as begun, and
        CancelledError if the attempt was told to stop before a child had begun it.
        """
        if self._loop.time() < self._no_start_until:
            raise NoProcess(self._start_problem)
        since = time.monotonic()
        assignment = Assignment(
            attempt,
            process,
            rated_keys,
            self._loop.create_future(),
            since,
            since + self._timing.handler_begin,
        )
        self._waiting.append(assignment)
        self._assign_waiting()
        try:
            await assignment.future
        except asyncio.CancelledError:
            if assignment.child is None:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(assignment)
                raise
            if not assignment.has_reply:  # It may have ended before it could be told to stop.
                await self._stop(assignment, assignment.child)
        return assignment.result()

    async def _stop(self, assignment: Assignment, child: ChildConnection) -> None:
        """Tell the handler to stop, and kill the child if the handler does not stop in time."""
        assignment.future = self._loop.create_future()
        child.send(StopAttempt(assignment.attempt.stop_reason or "cancelled"))
        assignment.timer = self._loop.call_later(
            assignment.process.grace_seconds, self._kill, child
        )
        await assignment.future

    def _kill(self, child: ChildConnection) -> None:
        # Each supervisor numbers its own children: a new one may have given this number to another
        # child.
        is_ours = child in (self._children.get(child.number), self._leaving.get(child.number))
        if self._supervisor is not None and is_ours:
            child.is_killed = True
            self._supervisor.kill(child.number)

    def _on_broken_channel(self, child: ChildConnection, cause: Cause, why: object) -> None:
        """Kill a child whose channel is broken."""
        is_leaving = self._leaving.get(child.number) is child
        if child.broken_by is None and not is_leaving:
            logger.error(
                "The channel to a child process is broken, and the child is killed: %s.", why
            )
            child.broken_by = cause
            self._kill(child)

    # Assigning attempts to children

    def _assign_waiting(self) -> None:
        while self._waiting and self._idle:
            assignment, child = self._waiting.popleft(), self._idle.pop()
            if assignment.attempt.job.is_suspect:
                self._mark_then_assign(assignment, child)
            else:
                self._assign(assignment, child)
        if self._waiting and self._wait_timer is None:
            self._wait_timer = self._loop.call_later(self._timing.child_wait, self._release_overdue)
        starting = sum(not child.is_ready for child in self._children.values())
        max_starting = min(len(self._waiting), MAX_STARTING)
        while self._waiting and starting < max_starting and self._has_room:
            self._start_child()
            starting += 1

    @property
    def _has_room(self) -> bool:
        """Return whether another child may start. Children that are leaving still count."""
        return (
            self._start_timer is None
            and len(self._children) + len(self._leaving) < self._max_children
        )

    def _release_overdue(self) -> None:
        """Give back attempts that have waited too long. Another worker may have a free child."""
        self._wait_timer, now, count = None, time.monotonic(), 0
        patience = self._timing.child_wait
        while self._waiting and now >= self._waiting[0].waiting_since + patience:
            self._waiting.popleft().end(NotStarted())
            count += 1
        if count:
            logger.warning(
                "Jobs that waited %g s for a child process are given back: %d. %s",
                patience,
                count,
                self._remedy(),
            )
        if self._waiting:
            wait = self._waiting[0].waiting_since + patience - now
            self._wait_timer = self._loop.call_later(wait, self._release_overdue)

    def _remedy(self) -> str:
        if any(child.is_ready for child in self._children.values()):
            most = self._max_children
            return (
                f"Give their queues fewer slots, or allow the worker more than {most} child "
                "processes."
            )
        since = time.monotonic() if self._supervisor is None else self._supervisor.since
        return (
            "Child processes have been importing their modules and starting for "
            f"{time.monotonic() - since:.0f} s. Import less in the modules of tasks."
        )

    def _start_child(self) -> None:
        try:
            if self._supervisor is None:
                supervisor = SupervisorClient(
                    self._plan(), self._on_death, self._on_prepared, self._on_supervisor_lost
                )
                supervisor.start()
                self._supervisor = supervisor
            started = self._supervisor.start_child()
        except OSError as error:
            # The system has no process or file left.
            self._handle_failed_start(Death(status=1, trace=str(error)))
            return
        self._children[started.number] = ChildConnection(
            started, self._handle, self._serve, self._on_broken_channel
        )

    def _mark_then_assign(self, assignment: Assignment, child: ChildConnection) -> None:
        """Mark a suspect as begun now that a child is free, and assign it to the child.

        The mark is not written sooner. If this worker dies, a suspect that still waits for a child
        has not begun.
        """
        marking = self._loop.create_task(
            self._assign_marked(assignment, child), name="penstock mark"
        )
        self._mark_tasks.add(marking)
        marking.add_done_callback(self._mark_tasks.discard)

    async def _assign_marked(self, assignment: Assignment, child: ChildConnection) -> None:
        try:
            if not await self._suspects.mark(assignment.attempt.job):
                assignment.end(LostJob())
        except MarkRefused as refusal:
            assignment.end(refusal)
        if self._children.get(child.number) is not child:
            # The child died while the suspect was marked.
            if not assignment.future.done():
                self._waiting.appendleft(assignment)
        elif not assignment.future.done():
            self._assign(assignment, child)
        else:
            self._release_child(child)
        self._assign_waiting()

    def _assign(self, assignment: Assignment, child: ChildConnection) -> None:
        if assignment.future.done():
            self._idle.append(child)
            return
        assert self._supervisor is not None
        assignment.child, child.assignment = child, assignment
        assignment.assigned_at = time.monotonic()
        child.jobs += 1
        # Leftovers of an earlier job may keep the child from reading its messages.
        self._supervisor.expect_start(child.number, self._timing.child_begin)
        child.send(assignment.to_message())

    def _handle(self, child: ChildConnection, message: FromChild) -> None:
        assignment = child.assignment
        match message:
            case ChildReady() if not child.is_ready:
                child.is_ready = True
                self._release_child(child)
            case AttemptEnded() if assignment is not None:
                assignment.end(message)
                if message.idle:
                    self._release_child(child, assignment, message.resident)
                elif assignment.timer is None:
                    assignment.timer = self._loop.call_later(
                        assignment.process.grace_seconds, self._kill, child
                    )
            case Abandoned(resident) if assignment is not None:
                assignment.end(None)
                self._release_child(child, assignment, resident)
            case Idle(resident) if assignment is not None and assignment.has_reply:
                self._release_child(child, assignment, resident)
            case ProgressReport(token, done, total, text):
                # The report may come from a thread that an earlier handler has left behind.
                if assignment is not None and assignment.is_for(token):
                    self._report(assignment.attempt, done, total, text)
            case Logged():
                logs.write_record(message)
            case _:
                self._on_broken_channel(
                    child, "garbage", f"the child sent an unexpected {type(message).__name__}"
                )

    def _release_child(
        self, child: ChildConnection, assignment: Assignment | None = None, resident: int = 0
    ) -> None:
        """Give an idle child the next attempt, or let it leave if it must be replaced."""
        child.assignment = None
        if child.is_killed or child.number not in self._children:
            return
        if assignment is not None:
            self._failed_starts = 0
            assignment.cancel_timer()
            if assignment.process.is_worn(child.jobs, resident):
                self._retire(child)
                return
        self._idle.append(child)
        self._assign_waiting()

    def _retire(self, child: ChildConnection) -> None:
        logger.debug("Child %d leaves after %d jobs.", child.number, child.jobs)
        self._dismiss(child)
        self._replace()

    def _replace(self) -> None:
        """Start a child in place of one that left, so that the next job finds it warm."""
        if self._has_room:
            self._start_child()
        self._assign_waiting()

    def _dismiss(self, child: ChildConnection) -> None:
        """Tell an idle child to leave: it closes its resources first."""
        del self._children[child.number]
        self._leaving[child.number] = child
        self._all_left.clear()
        child.send(Leave())
        self._loop.call_later(EXIT_WAIT_S, self._kill, child)

    # Deaths and failures

    def _on_death(self, number: int, death: Death) -> None:
        if (left := self._leaving.pop(number, None)) is not None:
            left.close()
            if not self._leaving:
                self._all_left.set()
            self._replace()
            return
        child = self._children.pop(number, None)
        if child is None:
            return
        child.close()
        if child in self._idle:
            self._idle.remove(child)
        if child.broken_by is not None:
            death = msgspec.structs.replace(death, cause=child.broken_by)
        jobs, assignment = child.jobs, child.assignment
        if assignment is not None:
            assignment.cancel_timer()
            has_begun = death.began >= assignment.assigned_at
            if not has_begun:
                logger.warning(
                    "%r had not begun, and is given back: %s.", assignment.attempt, death
                )
                jobs -= 1
            assignment.end(death if has_begun else NotStarted())
        if jobs:
            self._replace()
        else:
            self._handle_failed_start(death)
            self._assign_waiting()

    def _handle_failed_start(self, death: Death) -> None:
        """Retry after a child died before its first job. After a few tries, report the problem.

        While other children are ready, the pool keeps trying, because waiting attempts can go to
        them.
        """
        if self._start_timer is not None:
            return
        retries = self._timing.child_retries
        if self._failed_starts >= len(retries) and not any(
            child.is_ready for child in self._children.values()
        ):
            self._failed_starts = 0
            self._give_up(f"Child processes die when they start: {death}. {death.trace}")
            return
        pause = retries[min(self._failed_starts, len(retries) - 1)]
        self._failed_starts += 1
        self._start_timer = self._loop.call_later(pause, self._try_again)

    def _try_again(self) -> None:
        self._start_timer = None
        self._assign_waiting()

    def _on_prepared(self, trouble: str | None) -> None:
        if trouble is not None:
            self._give_up(f"Child processes cannot import what the worker has:\n{trouble}")

    def _give_up(self, why: str) -> None:
        """Fail all waiting attempts, and start no child for a while."""
        logger.error("No job can run in a child process. %s", why)
        self._start_problem, self._no_start_until = (
            why,
            self._loop.time() + self._timing.children_pause,
        )
        waiting, self._waiting = list(self._waiting), deque()
        for assignment in waiting:
            assignment.end(NoProcess(why))
        self._start_ending()

    def _on_supervisor_lost(self) -> None:
        """Handle the loss of the supervisor and its children.

        A new supervisor starts when it is needed.
        """
        is_prepared = self._supervisor is not None and self._supervisor.is_prepared
        self._start_ending(is_supervisor_lost=True)
        if is_prepared:
            self._loop.call_soon(self._assign_waiting)
        else:
            # Its imports may be what ends it each time.
            self._handle_failed_start(death_of_supervisor(0.0))

    def _start_ending(self, *, is_supervisor_lost: bool = False) -> None:
        ending = asyncio.ensure_future(self._end_children(is_supervisor_lost=is_supervisor_lost))
        self._closing.add(ending)
        ending.add_done_callback(self._closing.discard)

    async def _end_children(self, *, is_supervisor_lost: bool = False) -> None:
        supervisor, self._supervisor = self._supervisor, None
        children = [*self._children.values(), *self._leaving.values()]
        self._children, self._leaving = {}, {}
        self._idle.clear()
        self._all_left.set()
        for child in children:
            child.close()
            assignment = child.assignment
            if assignment is not None and supervisor is not None:
                began = supervisor.began(child.number)
                is_death = is_supervisor_lost and began >= assignment.assigned_at
                assignment.end(death_of_supervisor(began) if is_death else NotStarted())
        if supervisor is not None:
            await supervisor.close()

    def outcome(self, attempt: Attempt, process: Process, death: Death) -> Died | TimedOut:
        """Return the outcome of an attempt whose child died, and emit ChildDied."""
        job = attempt.job
        self._events.emit(ChildDied(str(job.id), job.task, job.number, death.name))
        return outcome_of_death(attempt, process, death)

    async def close(self) -> None:
        """Let all children leave. Kill children that still work or do not leave in time."""
        self._max_children = 0
        for timer in (self._start_timer, self._wait_timer, *self._mark_tasks):
            if timer is not None:
                timer.cancel()
        for child in self._idle:
            self._dismiss(child)
        self._idle.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EXIT_WAIT_S):
                    await self._all_left.wait()
        finally:
            # Children must end with their worker, even if whoever waits for this gives up.
            await asyncio.gather(self._end_children(), *self._closing)

    # Requests of handlers

    async def _serve(self, assignment: Assignment | None, request: CallRequest) -> Any:
        if assignment is None or not assignment.is_for(request.token):
            # The request comes from a task or thread that an earlier handler has left behind.
            raise StaleAttempt("", 0)
        return await self._calls[request.method](assignment.attempt, *request.args)
