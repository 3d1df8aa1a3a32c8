"""Keeps this worker's jobs within the limits that all workers share.

Slots and tokens are asked for in bulk and used here without asking again: no write per job. What
a worker holds goes back when it has no use for it, when another waits for its share, and by itself
when its lease ends.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from penstock.errors import LeaseLost
from penstock.lifecycle import Health, Service
from penstock.store import ClaimedJob, Pool, Store, errors
from penstock.store.grants import Granted, Limits, SlotRequest
from penstock.store.rules import Rules
from penstock.worker.lease import Session
from penstock.worker.limits.book import Grants, LimitBook
from penstock.worker.limits.grants import UNLIMITED, Grant
from penstock.worker.timing import DEFAULT_TIMING, Timing

# What came up in this time is asked for together.
GATHER = 0.005
# What was granted so short a time ago is about to be used.
FRESH = 0.1
# So many keys are asked for in one statement: each is locked until it ends.
KEYS = 200
# A job at hand is held for so long if its bucket has nothing; then anybody may have it.
HELD_MOST = 1.0


class LimitKeeper(Service):
    """Asks for slots and tokens, says what may start with them, and gives them back."""

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
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        super().__init__(health)
        self._timing = timing
        self._pool = pool
        self._limits = Limits(store)
        self._session = session
        self._most = most
        self._room = room
        self.holdings = LimitBook(ahead_most)
        self._asking: set[Grant] = set()
        self._asked: set[Grant] = set()
        self._refused: set[Grant] = set()
        self._with_tokens: set[Grant] = set()
        self._in_vain: Counter[Grant] = Counter()
        # Those with slots that nothing here uses now; and those whose slots were of no use.
        self._unused: set[Grant] = set()
        self._spared: set[Grant] = set()
        self._looked = 0.0
        self.answers = 0

    def apply(self, rules: Rules) -> None:
        """Put new limits in force; what is held is kept as far as they allow."""
        self._asking.update(self.holdings.apply(rules))
        self.wake()

    # Before a claim

    def room(self, grants: Grants, most: int, wanted: int) -> int:
        """How many jobs of a line may be claimed, by a claim that wants so many of all lines.

        What is missing is asked for.
        """
        room = most
        for grant in grants:
            there = grant.room
            # Tokens are asked for while there still are some, or every claim would wait for them.
            if there < (2 * wanted if grant.limit.rate is not None else most):
                self._need(grant, wanted)
            room = min(room, there)
        return room

    def is_asking(self, grants: Grants) -> bool:
        """Whether an answer is due that may make room."""
        return not (self._asking.isdisjoint(grants) and self._asked.isdisjoint(grants))

    def _need(self, grant: Grant, wanted: int) -> None:
        grant.touched = now = time.monotonic()
        demand, grant.demand = grant.demand, max(grant.demand, wanted)
        if grant.ask_at > now:
            if grant not in self._refused:
                self._refused.add(grant)
                self.wake()
        elif self._may_grow(grant):
            self._ask(grant)
        elif grant not in self._asking and grant not in self._asked:
            grant.demand = demand

    def let_go_unused(self) -> None:
        """All that is known waits for a limit: others may use what is held of the rest meanwhile.

        Two who each hold what the other waits for would both wait.
        """
        unused, self._unused = self._unused, set()
        for grant in unused:
            if grant.slots.limit and not grant.is_busy:
                grant.is_spare = True
                self._ask(grant)

    def _may_grow(self, grant: Grant) -> bool:
        limit = grant.limit
        if limit.slots is not None and grant.slots.limit < min(limit.slots, self._most):
            return grant.share is None
        return limit.rate is not None and grant.tokens_wanted > 0

    def _ask(self, grant: Grant) -> None:
        self._asking.add(grant)
        self.wake()

    # Around an attempt

    def expect(self, job: ClaimedJob) -> None:
        """A job was claimed and is at hand."""
        job.grants = self.holdings.of_line(job.queue, job.row["lane"])
        for grant in job.grants:
            grant.at_hand += 1

    def dismiss(self, job: ClaimedJob) -> None:
        """It is no longer at hand."""
        for grant in job.grants:
            grant.at_hand -= 1
        job.grants = ()

    def may_start(self, job: ClaimedJob) -> bool:
        for grant in self.holdings.of_job(job):
            if not grant.may_start:
                self._need(grant, 1)
                return False
        return True

    def may_any_start(self, queue: str) -> bool:
        """Whether the limit of a whole queue lets anything start; if not, more is asked for."""
        for grant in self.holdings.of_queue(queue):
            if not grant.may_start:
                self._need(grant, 1)
                return False
        return True

    def begin(self, job: ClaimedJob) -> None:
        self.dismiss(job)
        job.grants = self.holdings.of_job(job)
        for grant in job.grants:
            grant.start()

    def end(self, job: ClaimedJob) -> None:
        for grant in job.grants:
            grant.end()
            if not grant.slots.used:
                self._unused.add(grant)
                self.spare(grant)
            if grant.shrink():
                self._ask(grant)
        job.grants = ()

    def undo(self, job: ClaimedJob) -> None:
        """It was counted as begun and has not: the tokens that it used go back, too."""
        rated = [one for one in job.grants if one.limit.rate is not None]
        self.end(job)
        if rated:
            self._in_vain.update(rated)
            self.wake()

    def recount(self, job: ClaimedJob, *, runs: bool) -> None:
        """Limits are new: count a job also against those that it was not counted against."""
        new = tuple(one for one in self.holdings.of_job(job) if one not in job.grants)
        for grant in new:
            if runs:
                grant.slots.take()
            else:
                grant.at_hand += 1
        job.grants += new

    @property
    def has_shut(self) -> bool:
        """Whether a bucket that is waited for will give nothing for long."""
        until = time.monotonic() + HELD_MOST
        return any(one.ask_at > until for one in self._refused)

    def is_shut(self, job: ClaimedJob) -> bool:
        """Whether a job at hand has long to wait: its bucket is closed, or empty and slow."""
        until = time.monotonic() + HELD_MOST
        return any(
            grant.limit.rate is not None and grant.tokens < 1 and grant.ask_at > until
            for grant in job.grants
        )

    # News

    def told(self, key: str) -> None:
        """Somebody waits for slots of this key, or has given some back."""
        grant = self.holdings.get(key)
        if grant is not None and grant not in self._spared:
            grant.ask_at = 0.0
            if not grant.slots.limit:
                self.wake()
                return
            grant.is_wanted = True
            if grant.slots.limit > 1:
                self._ask(grant)
            elif time.monotonic() - grant.asked_at >= FRESH:
                self.spare(grant)

    def asked_for(self, key: str) -> None:
        """Somebody goes on waiting for slots of this key, perhaps since before we had them."""
        grant = self.holdings.get(key)
        if grant is not None and grant.slots.limit:
            self.told(key)

    def spare(self, grant: Grant) -> None:
        """Give it back at once if another worker wants it and nothing here has to do with it."""
        if grant.is_wanted and grant.slots.limit and not grant.is_busy:
            grant.is_spare = True
            self._ask(grant)

    def closed(self, key: str, seconds: float) -> None:
        """A bucket was closed for everyone, or opened again."""
        if (grant := self.holdings.get(key)) is not None:
            grant.ask_at = 0.0
            if seconds > 0:
                grant.taken.keep(0)
                grant.ask_at = time.monotonic() + seconds
            self._ask(grant)

    # Asking

    async def tick(self) -> float:
        if not self.holdings:
            return self._timing.limit_idle
        await asyncio.sleep(GATHER)
        has_looked = self._look()
        is_due = self._is_refusal_over()
        self._asked, self._asking = self._asking, set()
        try:
            has_room = await self._give_back_tokens()
            for some in _parts([one for one in self._asked if _has_slots(one)]):
                has_room |= await self._ask_slots(some)
            has_room |= await self._ask_tokens()
        except BaseException:
            self._asking |= self._asked
            raise
        finally:
            asked, self._asked = self._asked, set()
            self.answers += 1
        self._note_refusals(asked)
        if asked or has_room or has_looked or is_due:
            self._room()
        return self._pause()

    def _is_refusal_over(self) -> bool:
        """Whether it is worth asking again for what was refused: who still needs it will."""
        now = time.monotonic()
        over = [one for one in self._refused if one.ask_at <= now]
        self._refused.difference_update(over)
        return bool(over)

    def _look(self) -> bool:
        """Now and then: ask for less where nothing goes on any more, and hear what others need."""
        now = time.monotonic()
        if now - self._looked < self._timing.limit_idle / 2:
            return False
        self._looked = now
        self.holdings.trim()
        for grant in self.holdings:
            if grant.demand and now - grant.touched >= self._timing.limit_patience:
                grant.demand = 0
                self._refused.discard(grant)
            if not grant.is_idle:
                grant.touched = max(grant.touched, now if not grant.demand else 0.0)
                if grant.is_known and now - grant.asked_at >= self._timing.limit_idle:
                    self._asking.add(grant)
            elif now - grant.touched >= self._timing.limit_idle:
                if grant.is_known:
                    self._asking.add(grant)
                elif grant not in self._asking and not grant.tokens:
                    self._drop(grant)
        return True

    def _drop(self, grant: Grant) -> None:
        self.holdings.drop(grant)
        for some in (self._refused, self._unused, self._spared):
            some.discard(grant)

    def _wants(self, grant: Grant) -> int:
        limit = grant.limit.slots
        if grant.is_spare and not grant.is_busy:
            return 0
        if limit is None or (
            grant.is_idle and time.monotonic() - grant.touched >= self._timing.limit_idle
        ):
            return 0
        return min(limit, self._most)

    def _keeps(self, grant: Grant) -> int:
        """What may be in use until the answer comes, and so is not given away by it."""
        if grant.limit.slots is None:
            return grant.slots.used
        return max(min(grant.slots.limit, self._wants(grant)), grant.slots.used)

    async def _ask_slots(self, asking: Sequence[Grant]) -> bool:
        lease = await self._session.held()
        asks: dict[str, SlotRequest] = {}
        spare = {grant for grant in asking if grant.is_spare}
        limits = {grant: grant.limit for grant in asking}
        asked_at = time.monotonic()
        for grant in asking:
            # Lowered first, then told: what others get for it may not be in use here.
            kept = self._keeps(grant)
            grant.slots.limit = min(grant.slots.limit, kept)
            asks[grant.key] = SlotRequest(self._wants(grant), kept)
            # What is told from here on is newer than the answer.
            grant.is_wanted = False
            grant.ask_at = max(grant.ask_at, asked_at)
        granted = await self._grant(lease, asks)
        if lease != self._session.lease:
            return False
        has_room = False
        now = time.monotonic()
        for grant in asking:
            slots, share = granted[grant.key]
            wants = asks[grant.key].wants
            has_room |= (slots or 0) > grant.slots.limit
            grant.slots.limit = slots or 0
            if grant.limit != limits[grant]:
                # It is another meanwhile, and asked about again; until then it is kept to.
                grant.slots.limit = min(grant.slots.limit, _most_slots(grant))
            grant.is_known = bool(slots or wants) and slots is not None
            grant.asked_at = now
            grant.share = share if slots and share is not None and slots > share else None
            if slots and not grant.is_busy:
                self._unused.add(grant)
            if slots is not None and slots < wants:
                if grant.ask_at >= asked_at:
                    grant.ask_at = now + self._timing.limit_retry
            elif grant in spare and not wants:
                grant.ask_at = now + self._timing.limit_retry * (0.5 + random.random() / 2)
                self._spared.add(grant)
            if grant in spare:
                grant.is_spare = False
            if grant.shrink():
                self._ask(grant)
        if has_room:
            self._need_spared()
        return has_room

    def _need_spared(self) -> None:
        """There is room in another limit: what was of no use may be of use again."""
        spared, self._spared = self._spared, set()
        for grant in spared:
            grant.ask_at = 0.0

    async def _grant(self, lease: int, asks: dict[str, SlotRequest]) -> dict[str, Granted]:
        try:
            return await self._limits.grant(self._pool, lease, asks)
        except Exception as error:
            if errors.is_state(error, errors.LEASE_LOST):
                self._session.lapse(lease)
                raise LeaseLost(str(lease)) from error
            raise

    async def _ask_tokens(self) -> bool:
        now = time.monotonic()
        wants = {
            one: one.tokens_wanted
            for one in self._asked
            if one.limit.rate is not None and one.ask_at <= now
        }
        has_room = False
        for some in _parts([one for one, want in wants.items() if want]):
            asked_at = time.monotonic()
            for grant in some:
                grant.ask_at = asked_at
            taken = await self._limits.take(self._pool, {one.key: wants[one] for one in some})
            for grant in some:
                got, wait = taken[grant.key]
                if got and grant.ask_at > asked_at:
                    # It was closed meanwhile, and with it what was taken before.
                    continue
                if got:
                    has_room = True
                    grant.taken.put(got, asked_at)
                    self._with_tokens.add(grant)
                elif wait and grant.ask_at == asked_at:
                    # Otherwise the limit is another meanwhile, or open again: this was before.
                    grant.ask_at = time.monotonic() + wait
        return has_room

    async def _give_back_tokens(self) -> bool:
        """Tokens that were not used at once, or in vain, go back: another may need them now."""
        back = Counter({one: one.taken.drop_stale() for one in self._with_tokens})
        self._with_tokens = {one for one in back if one.tokens}
        back += self._in_vain  # Which leaves out those of which there is none.
        self._in_vain.clear()
        for some in _parts(list(back)):
            await self._limits.take(self._pool, {one.key: -back[one] for one in some})
        return any(one.at_hand for one in back)

    async def flush(self) -> None:
        """The worker leaves: what it has not used, or in vain, goes back now."""
        for grant in self._with_tokens:
            self._in_vain[grant] += max(grant.tokens, 0)
            grant.taken.keep(0)
        await self._give_back_tokens()

    def _note_refusals(self, asked: set[Grant]) -> None:
        now = time.monotonic()
        for grant in asked:
            if grant.ask_at > now and grant.demand:
                self._refused.add(grant)
                continue
            self._refused.discard(grant)
            if grant not in self._asking:
                grant.demand = 0

    def _pause(self) -> float:
        """Until the next token, the next try for slots, or the next look at what is idle."""
        due = [one.ask_at for one in self._refused]
        due += [one.taken.stale_at for one in self._with_tokens]
        pause = min(due, default=math.inf) - time.monotonic() - GATHER
        return min(self._timing.limit_idle / 2, max(pause, GATHER / 5))


def _most_slots(grant: Grant) -> int:
    slots = grant.limit.slots
    return UNLIMITED if slots is None else slots


def _has_slots(grant: Grant) -> bool:
    return grant.limit.slots is not None or grant.is_known


def _parts(grants: Sequence[Grant]) -> Iterator[Sequence[Grant]]:
    for start in range(0, len(grants), KEYS):
        yield grants[start : start + KEYS]
