"""Keeps this worker's jobs within the limits that all workers share.

Slots and tokens are asked for in bulk and used here without asking again: no write per job. What
a worker holds goes back when it has no use for it, when another waits for its share, and by itself
when its lease ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from penstock.job import UNIT_SEPARATOR, split_lane
from penstock.lifecycle import Health, Service
from penstock.store import Attempt, Pool, Store
from penstock.store.limits import Ask, Limits
from penstock.store.rules import Limit, Rules
from penstock.worker.allowance import Allowance
from penstock.worker.session import Session

# What came up in this time is asked for together.
GATHER = 0.005
# So long a grant is kept without use, and so often one asks again for what was refused.
IDLE = 2.0
AGAIN = 1.0
# A job at hand is held for so long if its bucket has nothing; then anybody may have it.
HELD_MOST = 1.0

Allowances = tuple[Allowance, ...]


class Limiter(Service):
    """The allowances of a worker, one for each limited key that its jobs have."""

    name = "limits"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        session: Session,
        health: Health,
        *,
        most: int,
        ahead_most: int,
        room: Callable[[], None],
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._limits = Limits(store)
        self._session = session
        self._most = most
        self._ahead_most = ahead_most
        self._room = room
        self._rules = Rules()
        self._allowances: dict[str, Allowance] = {}
        self._by_line: dict[tuple[str, str], Allowances] = {}
        self._by_job: dict[tuple[str, str, str], Allowances] = {}
        self._asking: set[Allowance] = set()
        self._looked = 0.0

    @property
    def is_on(self) -> bool:
        """Whether there is any limit."""
        return bool(self._rules.limits)

    def apply(self, rules: Rules) -> None:
        """Put new limits in force; what is held is kept as far as they allow."""
        self._rules = rules
        self._by_line.clear()
        self._by_job.clear()
        for key, allowance in tuple(self._allowances.items()):
            limit = rules.limit_of(key)
            if limit is None and allowance.is_idle:
                del self._allowances[key]
                self._asking.discard(allowance)
            elif limit is None:
                # Kept for what runs with it: a new limit must count that too.
                allowance.limit = Limit(key)
            elif limit != allowance.limit:
                allowance.limit = limit
                allowance.tokens = min(allowance.tokens, int(limit.burst or 0))
                allowance.ask_at = 0.0
                self._asking.add(allowance)
        self.wake()

    def forget(self) -> None:
        """The lease is gone, and with it all that was granted."""
        for allowance in self._allowances.values():
            allowance.slots.limit = 0

    def has_rate(self, key: str) -> bool:
        """Whether a key has a bucket."""
        limit = self._rules.limit_of(key)
        return limit is not None and limit.rate is not None

    # Before a claim

    def of_line(self, queue: str, lane: str) -> Allowances:
        """The allowances that a claim from this line must keep to."""
        found = self._by_line.get((queue, lane))
        if found is None:
            turn, keys = split_lane(lane)
            found = self._find([f"queue:{queue}", f"lane:{queue}:{turn}", *keys])
            self._by_line[queue, lane] = found
        return found

    def _find(self, keys: Iterable[str]) -> Allowances:
        return tuple(found for key in keys if (found := self._allowance(key)) is not None)

    def _allowance(self, key: str) -> Allowance | None:
        allowance = self._allowances.get(key)
        if allowance is None:
            limit = self._rules.limit_of(key)
            if limit is None:
                return None
            allowance = self._allowances[key] = Allowance(key, limit, self._ahead_most)
        return allowance

    def room(self, allowances: Allowances, most: int, wanted: int) -> int:
        """How many jobs of a line may be claimed, by a claim that wants so many of all lines.

        What is missing is asked for.
        """
        room = most
        for allowance in allowances:
            there = allowance.room
            # Tokens are asked for while there still are some, or every claim would wait for them.
            if there < (wanted if allowance.limit.rate is not None else most):
                self._need(allowance, wanted)
            room = min(room, there)
        return room

    def is_asking(self, allowances: Allowances) -> bool:
        """Whether an answer is due that may make room."""
        return not self._asking.isdisjoint(allowances)

    def _need(self, allowance: Allowance, wanted: int) -> None:
        allowance.demand = max(allowance.demand, wanted)
        allowance.touched = allowance.needed = time.monotonic()
        if self._may_grow(allowance):
            self._asking.add(allowance)
            self.wake()

    def _may_grow(self, allowance: Allowance) -> bool:
        limit = allowance.limit
        if allowance.ask_at > time.monotonic():
            return False
        has_slots = limit.slots is None or allowance.slots.limit >= min(limit.slots, self._most)
        return limit.rate is not None or not (has_slots or allowance.is_over_share)

    # Around an attempt

    def expect(self, attempt: Attempt) -> None:
        """A job was claimed and is at hand."""
        attempt.allowances = self.of_line(attempt.queue, attempt.row["lane"])
        for allowance in attempt.allowances:
            allowance.at_hand += 1

    def dismiss(self, attempt: Attempt) -> None:
        """It is no longer at hand."""
        for allowance in attempt.allowances:
            allowance.at_hand -= 1
        attempt.allowances = ()

    def may_start(self, attempt: Attempt) -> bool:
        for allowance in self._of_job(attempt):
            if not allowance.may_start:
                self._need(allowance, 1)
                return False
        return True

    def begin(self, attempt: Attempt) -> None:
        self.dismiss(attempt)
        attempt.allowances = self._of_job(attempt)
        for allowance in attempt.allowances:
            allowance.start()

    def end(self, attempt: Attempt) -> None:
        for allowance in attempt.allowances:
            allowance.end()
            if allowance.is_over_share:
                self._asking.add(allowance)
                self.wake()
        attempt.allowances = ()

    def _of_job(self, attempt: Attempt) -> Allowances:
        """The allowances that one job needs, also those that came up after it was enqueued."""
        lane = attempt.row["lane"]
        key = (attempt.queue, lane, attempt.task)
        found = self._by_job.get(key)
        if found is None:
            found = self.of_line(attempt.queue, lane)
            task = self._allowance(f"task:{attempt.task}")
            if task is not None and task not in found:
                found = (*found, task)
            self._by_job[key] = found
        return found

    def is_shut(self, attempt: Attempt) -> bool:
        """Whether a job at hand has long to wait: its bucket is closed, or empty and slow."""
        until = time.monotonic() + HELD_MOST
        return any(
            allowance.limit.rate is not None and allowance.tokens < 1 and allowance.ask_at > until
            for allowance in attempt.allowances
        )

    def proper_lane(self, attempt: Attempt) -> str | None:
        """Where a job belongs that stands in a line without its task's limit; None if it is right.

        The limit is newer than the job. In a line of its own it does not hold up the others.
        """
        lane, key = attempt.row["lane"], f"task:{attempt.task}"
        turn, keys = split_lane(lane)
        if key in keys or self._allowance(key) is None:
            return None
        return UNIT_SEPARATOR.join([turn, *sorted([*keys, key])])

    # News

    def told(self, key: str) -> None:
        """Somebody waits for slots of this key, or has given some back."""
        if (allowance := self._allowances.get(key)) is not None:
            allowance.ask_at = 0.0
            self._asking.add(allowance)
            self.wake()

    def closed(self, key: str, seconds: float) -> None:
        """A bucket was closed for everyone, or opened again."""
        if (allowance := self._allowances.get(key)) is not None:
            allowance.ask_at = 0.0
            if seconds > 0:
                allowance.tokens = 0
                allowance.ask_at = time.monotonic() + seconds
            self._asking.add(allowance)
            self.wake()

    # Asking

    async def tick(self) -> float:
        if not self._allowances:
            return IDLE
        await asyncio.sleep(GATHER)
        self._let_go()
        asking, self._asking = self._asking, set()
        try:
            grown = await self._ask_slots([one for one in asking if one.limit.slots is not None])
            grown |= await self._ask_tokens([one for one in asking if one.limit.rate is not None])
        except BaseException:
            self._asking |= asking
            raise
        if grown:
            self._room()
        return self._pause()

    def _let_go(self) -> None:
        """Ask for less where nothing is going on any more."""
        now = time.monotonic()
        if now - self._looked < IDLE / 2:
            return
        self._looked = now
        is_stale = False
        for key, allowance in tuple(self._allowances.items()):
            if allowance.demand and now - allowance.needed >= IDLE:
                # The line that wanted it may have gone to another worker; if not, it says so again.
                allowance.demand = 0
                is_stale = True
            if not allowance.is_idle:
                allowance.touched = now
            elif now - allowance.touched >= IDLE:
                if allowance.slots.limit or allowance.tokens:
                    self._asking.add(allowance)
                elif allowance not in self._asking:
                    self._drop(key)
        if is_stale:
            self._room()

    def _drop(self, key: str) -> None:
        del self._allowances[key]
        self._by_line.clear()
        self._by_job.clear()

    def _wants(self, allowance: Allowance) -> int:
        assert allowance.limit.slots is not None
        if allowance.is_idle and time.monotonic() - allowance.touched >= IDLE:
            return 0
        return min(allowance.limit.slots, self._most)

    async def _ask_slots(self, asking: Sequence[Allowance]) -> bool:
        if not asking:
            return False
        lease = await self._session.held()
        asks = {one.key: Ask(self._wants(one), one.slots.used) for one in asking}
        granted = await self._limits.grant(self._pool, lease, asks)
        if lease != self._session.lease:
            return False
        grown = False
        for allowance in asking:
            slots, share = granted[allowance.key]
            if slots is None or share is None:
                continue  # The limit has gone; the rules will tell.
            grown |= slots > allowance.slots.limit
            allowance.slots.limit = slots
            allowance.is_over_share = slots > share
            if slots < asks[allowance.key].wants:
                allowance.ask_at = time.monotonic() + AGAIN
            elif allowance.limit.rate is None:
                allowance.demand = 0
        return grown

    async def _ask_tokens(self, asking: Sequence[Allowance]) -> bool:
        now = time.monotonic()
        wants = {one.key: self._tokens(one) for one in asking if one.ask_at <= now}
        wants = {key: want for key, want in wants.items() if want}
        if not wants:
            return False
        taken = await self._limits.take(self._pool, wants)
        grown = False
        for key, (got, wait) in taken.items():
            allowance = self._allowances[key]
            allowance.tokens += got
            grown |= got > 0
            if got:
                allowance.demand = 0
            elif wait:
                allowance.ask_at = time.monotonic() + wait
        return grown

    def _tokens(self, allowance: Allowance) -> int:
        """How many tokens to take; below 0, to give back."""
        if allowance.is_idle and time.monotonic() - allowance.touched >= IDLE:
            return -allowance.tokens
        return max(0, allowance.tokens_wanted - allowance.tokens) if allowance.demand else 0

    def _pause(self) -> float:
        """Until the next token, the next try for slots, or the next look at what is idle."""
        now = time.monotonic()
        pause = IDLE
        for allowance in self._allowances.values():
            if allowance.demand:
                self._asking.add(allowance)
                pause = min(pause, max(allowance.ask_at - now, 0.0) + GATHER)
        return pause
