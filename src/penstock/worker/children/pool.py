"""Runs attempts in child processes, which are kept warm and given one attempt at a time."""

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
from penstock.isolation import child as preparation
from penstock.isolation.client import SupervisorClient
from penstock.isolation.death import Cause, Death, gone_with_its_supervisor
from penstock.isolation.protocol import Plan
from penstock.outcome import Died, TimedOut
from penstock.store import ClaimedJob
from penstock.tasks import Task
from penstock.tasks.settings import Process
from penstock.telemetry import ChildDied, Events
from penstock.worker.attempt import Attempt
from penstock.worker.children import logs
from penstock.worker.children.assignment import (
    Answered,
    Assignment,
    LostJob,
    NoProcess,
    NotBegun,
    outcome_of,
)
from penstock.worker.children.channel import Child
from penstock.worker.children.messages import (
    Asked,
    Dropped,
    Ended,
    FromChild,
    Idle,
    Leave,
    Logged,
    Stop,
    Told,
    Up,
)
from penstock.worker.children.remote import help_with
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.context import Report
from penstock.worker.run.journal import Journal
from penstock.worker.run.suspects import MarkRefused, Suspects
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.isolation")

# For a job that is isolated only because it is a suspect.
SUSPECT: Final = Process()
LEAVE: Final = 5.0
# A supervisor that still imports cannot be told of more children than this.
COMING: Final = 64
MOST: Final = 500
UNGUARDED: Final = (
    "A child process imports the program to find its tasks, and the program starts a worker when "
    'it is imported. Start it under `if __name__ == "__main__":`, as for multiprocessing.'
)


def children_of(given: int | None) -> int:
    """How many child processes a worker may have: one for each processor, if nobody says."""
    if given is None:
        return os.cpu_count() or 1
    if type(given) is not int or not 1 <= given <= MOST:
        raise ConfigError("children", given, f"a whole number from 1 to {MOST}, or None")
    return given


class ChildPool:
    """The child processes of one worker."""

    def __init__(
        self,
        plan: Callable[[], Plan],
        names: Collection[str],
        journal: Journal,
        budgets: Budgets,
        report: Report,
        events: Events,
        suspects: Suspects,
        *,
        most: int,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        if preparation.is_preparing:
            raise RuntimeError(UNGUARDED)
        self._plan = plan
        self._names = names
        self._report = report
        self._events = events
        self._suspects = suspects
        self._marking: set[asyncio.Task[None]] = set()
        self._most = most
        self._timing = timing
        self._loop = asyncio.get_running_loop()
        self._nursery: SupervisorClient | None = None
        self._children: dict[int, Child] = {}
        self._leaving: dict[int, Child] = {}
        self._left = asyncio.Event()
        self._left.set()
        self._idle: list[Child] = []
        self._waiting: deque[Assignment] = deque()
        self._stillborn = 0
        self._why, self._hopeless_until = "", 0.0
        self._endings: set[asyncio.Future[None]] = set()
        self._next: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._help = help_with(journal, budgets)

    @property
    def most(self) -> int:
        """How many children there may be."""
        return self._most

    @property
    def count(self) -> int:
        """How many there are; may be asked for from any thread."""
        return len(self._children)

    def process_of(self, task: Task[..., Any], job: ClaimedJob) -> Process | None:
        """How to isolate an attempt; None if it runs in the worker."""
        isolate = task.settings.isolate
        if isolate:
            return isolate
        is_alone = job.row["suspect"] and task.name in self._names
        return SUSPECT if is_alone else None

    async def run(self, attempt: Attempt, process: Process, rated: Sequence[str]) -> Answered:
        """What came of an attempt; None if it was told to stop and nobody asks.

        Raises NoProcess if no child can be had, NotBegun if none had time for it, LostJob if it
        had lost its job when one had, MarkRefused if the database would not mark it as begun,
        CancelledError if none had begun it when it was told to stop.
        """
        if self._loop.time() < self._hopeless_until:
            raise NoProcess(self._why)
        since = time.monotonic()
        errand = Assignment(
            attempt,
            process,
            rated,
            self._loop.create_future(),
            since,
            since + self._timing.handler_begin,
        )
        self._waiting.append(errand)
        self._pump()
        try:
            await errand.future
        except asyncio.CancelledError:
            if errand.child is None:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(errand)
                raise
            if not errand.is_answered:  # Or it was over before it could be told to stop.
                await self._stop(errand, errand.child)
        return errand.result()

    async def _stop(self, errand: Assignment, child: Child) -> None:
        """Tell the handler to stop, and kill it if it does not in time."""
        errand.future = self._loop.create_future()
        child.send(Stop(errand.attempt.stopped or "cancelled"))
        errand.timer = self._loop.call_later(errand.process.grace_seconds, self._kill, child)
        await errand.future

    def _kill(self, child: Child) -> None:
        # Numbers are one supervisor's: another one may have given the same to another child.
        is_ours = child in (self._children.get(child.number), self._leaving.get(child.number))
        if self._nursery is not None and is_ours:
            child.is_doomed = True
            self._nursery.kill(child.number)

    def _broken(self, child: Child, cause: Cause, why: object) -> None:
        """Kill a child whose channel can be used no more."""
        is_leaving = self._leaving.get(child.number) is child
        if child.broken_by is None and not is_leaving:
            logger.error("The channel to a child process is broken, the child is killed: %s.", why)
            child.broken_by = cause
            self._kill(child)

    # Who gets which child

    def _pump(self) -> None:
        while self._waiting and self._idle:
            errand, child = self._waiting.popleft(), self._idle.pop()
            if errand.attempt.job.is_suspect:
                self._mark(errand, child)
            else:
                self._give(errand, child)
        if self._waiting and self._patience is None:
            self._patience = self._loop.call_later(self._timing.child_wait, self._lose_patience)
        coming = sum(not child.is_up for child in self._children.values())
        most = min(len(self._waiting), COMING)
        while self._waiting and coming < most and self._has_room:
            self._bear()
            coming += 1

    @property
    def _has_room(self) -> bool:
        """Whether there may be one more; those that leave are not gone yet."""
        return self._next is None and len(self._children) + len(self._leaving) < self._most

    def _lose_patience(self) -> None:
        """Give back what has waited for long: another worker may have a child for it."""
        self._patience, now, count = None, time.monotonic(), 0
        patience = self._timing.child_wait
        while self._waiting and now >= self._waiting[0].since + patience:
            self._waiting.popleft().end(NotBegun())
            count += 1
        if count:
            logger.warning(
                "Jobs that waited %g s for a child process are given back: %d. %s",
                patience,
                count,
                self._remedy(),
            )
        if self._waiting:
            wait = self._waiting[0].since + patience - now
            self._patience = self._loop.call_later(wait, self._lose_patience)

    def _remedy(self) -> str:
        if any(child.is_up for child in self._children.values()):
            return f"Give their queues fewer slots, or the worker more children than {self._most}."
        since = time.monotonic() if self._nursery is None else self._nursery.since
        return (
            "The supervisor imports what children need, or they begin, for "
            f"{time.monotonic() - since:.0f} s by now: import less in the modules of tasks."
        )

    def _bear(self) -> None:
        try:
            if self._nursery is None:
                nursery = SupervisorClient(self._plan(), self._died, self._prepared, self._lost)
                nursery.start()
                self._nursery = nursery
            born = self._nursery.bear()
        except OSError as error:
            # No process or no file can be had now.
            self._was_stillborn(Death(status=1, trace=str(error)))
            return
        self._children[born.number] = Child(born, self._heard, self._serve, self._broken)

    def _mark(self, errand: Assignment, child: Child) -> None:
        """Mark a suspect as begun, now that a child has time for it, and give it to the child.

        Not sooner: what still waits for a child when this worker dies has not begun.
        """
        marking = self._loop.create_task(self._give_marked(errand, child), name="penstock mark")
        self._marking.add(marking)
        marking.add_done_callback(self._marking.discard)

    async def _give_marked(self, errand: Assignment, child: Child) -> None:
        try:
            if not await self._suspects.mark(errand.attempt.job):
                errand.end(LostJob())
        except MarkRefused as refusal:
            errand.end(refusal)
        if self._children.get(child.number) is not child:
            # The child has died meanwhile.
            if not errand.future.done():
                self._waiting.appendleft(errand)
        elif not errand.future.done():
            self._give(errand, child)
        else:
            self._free(child)
        self._pump()

    def _give(self, errand: Assignment, child: Child) -> None:
        if errand.future.done():
            self._idle.append(child)
            return
        assert self._nursery is not None
        errand.child, child.errand = child, errand
        errand.given = time.monotonic()
        child.jobs += 1
        # Something that another job has left behind may keep the child from hearing of it.
        self._nursery.give(child.number, self._timing.child_begin)
        child.send(errand.order())

    def _heard(self, child: Child, message: FromChild) -> None:
        errand = child.errand
        match message:
            case Up() if not child.is_up:
                child.is_up = True
                self._free(child)
            case Ended() if errand is not None:
                errand.end(message)
                if message.idle:
                    self._free(child, errand, message.resident)
                elif errand.timer is None:
                    errand.timer = self._loop.call_later(
                        errand.process.grace_seconds, self._kill, child
                    )
            case Dropped(resident) if errand is not None:
                errand.end(None)
                self._free(child, errand, resident)
            case Idle(resident) if errand is not None and errand.is_answered:
                self._free(child, errand, resident)
            case Told(token, done, total, text):
                # Perhaps from a thread that another handler has left behind.
                if errand is not None and errand.is_of(token):
                    self._report(errand.attempt, done, total, text)
            case Logged():
                logs.write(message)
            case _:
                self._broken(child, "garbage", f"{type(message).__name__} out of turn")

    def _free(self, child: Child, errand: Assignment | None = None, resident: int = 0) -> None:
        """A child has nothing to do: the next attempt, or its end if it is worn."""
        child.errand = None
        if child.is_doomed or child.number not in self._children:
            return
        if errand is not None:
            self._stillborn = 0
            errand.cancel_timer()
            if errand.process.is_worn(child.jobs, resident):
                self._retire(child)
                return
        self._idle.append(child)
        self._pump()

    def _retire(self, child: Child) -> None:
        logger.debug("Child %d leaves after %d jobs.", child.number, child.jobs)
        self._dismiss(child)
        self._replace()

    def _replace(self) -> None:
        """One is gone: the next job finds a warm one."""
        if self._has_room:
            self._bear()
        self._pump()

    def _dismiss(self, child: Child) -> None:
        """Let a child go that has nothing to do: it closes what it has open."""
        del self._children[child.number]
        self._leaving[child.number] = child
        self._left.clear()
        child.send(Leave())
        self._loop.call_later(LEAVE, self._kill, child)

    # Ends

    def _died(self, number: int, death: Death) -> None:
        if (left := self._leaving.pop(number, None)) is not None:
            left.close()
            if not self._leaving:
                self._left.set()
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
        jobs, errand = child.jobs, child.errand
        if errand is not None:
            errand.cancel_timer()
            has_begun = death.began >= errand.given
            if not has_begun:
                logger.warning("%r was not begun and is given back: %s.", errand.attempt, death)
                jobs -= 1
            errand.end(death if has_begun else NotBegun())
        if jobs:
            self._replace()
        else:
            self._was_stillborn(death)
            self._pump()

    def _was_stillborn(self, death: Death) -> None:
        """A child died before its first job: try again a few times, then say so, unless there are
        others, which will have time for what waits."""
        if self._next is not None:
            return
        retries = self._timing.child_retries
        if self._stillborn >= len(retries) and not any(
            one.is_up for one in self._children.values()
        ):
            self._stillborn = 0
            self._give_up(f"Child processes die at their start: {death}. {death.trace}")
            return
        pause = retries[min(self._stillborn, len(retries) - 1)]
        self._stillborn += 1
        self._next = self._loop.call_later(pause, self._try_again)

    def _try_again(self) -> None:
        self._next = None
        self._pump()

    def _prepared(self, trouble: str | None) -> None:
        if trouble is not None:
            self._give_up(f"Child processes cannot import what the worker has:\n{trouble}")

    def _give_up(self, why: str) -> None:
        """Nothing can be run now; after a while the next attempt tries anew."""
        logger.error("No job can be isolated. %s", why)
        self._why, self._hopeless_until = why, self._loop.time() + self._timing.children_pause
        waiting, self._waiting = list(self._waiting), deque()
        for errand in waiting:
            errand.end(NoProcess(why))
        self._end_all()

    def _lost(self) -> None:
        """The supervisor is gone, and its children with it; a new one is started when needed."""
        is_settled = self._nursery is not None and self._nursery.is_settled
        self._end_all(is_lost=True)
        if is_settled:
            self._loop.call_soon(self._pump)
        else:
            # What it imports may end it each time.
            self._was_stillborn(gone_with_its_supervisor(0.0))

    def _end_all(self, *, is_lost: bool = False) -> None:
        ending = asyncio.ensure_future(self._drop_all(is_lost=is_lost))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _drop_all(self, *, is_lost: bool = False) -> None:
        nursery, self._nursery = self._nursery, None
        children = [*self._children.values(), *self._leaving.values()]
        self._children, self._leaving = {}, {}
        self._idle.clear()
        self._left.set()
        for child in children:
            child.close()
            errand = child.errand
            if errand is not None and nursery is not None:
                began = nursery.began(child.number)
                is_death = is_lost and began >= errand.given
                errand.end(gone_with_its_supervisor(began) if is_death else NotBegun())
        if nursery is not None:
            await nursery.close()

    def outcome(self, attempt: Attempt, process: Process, death: Death) -> Died | TimedOut:
        """What it means for an attempt that its child died; told as an event, too."""
        job = attempt.job
        self._events.emit(ChildDied(str(job.id), job.task, job.number, death.name))
        return outcome_of(attempt, process, death)

    async def close(self) -> None:
        """Let all children go; those that work still, or do not leave in time, are killed."""
        self._most = 0
        for timer in (self._next, self._patience, *self._marking):
            if timer is not None:
                timer.cancel()
        for child in self._idle:
            self._dismiss(child)
        self._idle.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE):
                    await self._left.wait()
        finally:
            # Also if whoever waits for this gives up: children end with their worker.
            await asyncio.gather(self._drop_all(), *self._endings)

    # What handlers ask for

    async def _serve(self, errand: Assignment | None, asked: Asked) -> Any:
        if errand is None or not errand.is_of(asked.token):
            # From a task or a thread that a handler has left behind; it knows which it is.
            raise StaleAttempt("", 0)
        return await self._help[asked.what](errand.attempt, *asked.args)
