"""Keeps this worker's jobs within the limits that all workers share.

The worker asks for slots and tokens in bulk and uses them without asking again, so a job costs no
extra write. The worker gives them back when it has no use for them or when another worker waits for
its share. Slots expire with the worker's lease.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from penstock.errors import LeaseLost
from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import ClaimedJob, Pool, Store, errors
from penstock.store.grants import Granted, LimitStatements, SlotRequest
from penstock.store.rules import Rules
from penstock.worker.lease import LeaseKeeper
from penstock.worker.limits.book import Grants, LimitBook
from penstock.worker.limits.grants import UNLIMITED, LimitGrant
from penstock.worker.timing import DEFAULT_TIMING, Timing

# What comes up within this time is asked for together.
ASK_DELAY_S = 0.005
# Slots granted this recently are about to be used.
RECENT_ANSWER_S = 0.1
# One statement asks for this many keys at most: it locks each until it ends.
MAX_KEYS_PER_STATEMENT = 200
# A prefetched job waits this long for an empty bucket; then it goes back, for any worker.
MAX_BLOCKED_S = 1.0


class LimitKeeper(Service):
    """Asks for slots and tokens, decides what may start with them, and gives them back."""

    name = "limits"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        lease_keeper: LeaseKeeper,
        health: DatabaseHealth,
        *,
        max_slots: int,
        max_ahead: int,
        on_room: Callable[[], None],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        super().__init__(health)
        self._timing = timing
        self._pool = pool
        self._limits = LimitStatements(store)
        self._lease_keeper = lease_keeper
        self._max_slots = max_slots
        self._on_room = on_room
        self.book = LimitBook(max_ahead)
        self._to_ask: set[LimitGrant] = set()
        self._being_asked: set[LimitGrant] = set()
        self._refused: set[LimitGrant] = set()
        self._with_tokens: set[LimitGrant] = set()
        self._tokens_to_return: Counter[LimitGrant] = Counter()
        # Grants with slots that nothing here uses now, and grants that were released because they
        # were of no use.
        self._unused: set[LimitGrant] = set()
        self._released: set[LimitGrant] = set()
        self._reviewed_at = 0.0
        self.answer_count = 0

    def apply(self, rules: Rules) -> None:
        """Put new limits in force, and keep the slots and tokens that they allow."""
        self._to_ask.update(self.book.apply(rules))
        self.wake()

    # Before a claim

    def room(self, grants: Grants, max_jobs: int, wanted: int) -> int:
        """Return how many jobs of a lane a claim may take.

        The claim wants `wanted` jobs of all lanes together. If slots or tokens are missing, this
        asks the database for more.
        """
        room = max_jobs
        for grant in grants:
            grant_room = grant.room
            # More tokens are asked for before they run out, or every claim would wait for them.
            if grant_room < (2 * wanted if grant.limit.rate is not None else max_jobs):
                self._request(grant, wanted)
            room = min(room, grant_room)
        return room

    def is_asking(self, grants: Grants) -> bool:
        """Return whether the worker is asking, or about to ask, for more of these grants."""
        return not (self._to_ask.isdisjoint(grants) and self._being_asked.isdisjoint(grants))

    def _request(self, grant: LimitGrant, wanted: int) -> None:
        grant.used_at = now = time.monotonic()
        demand, grant.demand = grant.demand, max(grant.demand, wanted)
        if grant.retry_at > now:
            if grant not in self._refused:
                self._refused.add(grant)
                self.wake()
        elif self._may_get_more(grant):
            self._ask_soon(grant)
        elif grant not in self._to_ask and grant not in self._being_asked:
            grant.demand = demand

    def release_unused(self) -> None:
        """Let other workers use idle slots while all known jobs wait for other limits.

        Otherwise two workers that each hold what the other one needs would both wait.
        """
        unused, self._unused = self._unused, set()
        for grant in unused:
            if grant.slots.limit and not grant.is_busy:
                grant.is_unneeded = True
                self._ask_soon(grant)

    def _may_get_more(self, grant: LimitGrant) -> bool:
        limit = grant.limit
        if limit.slots is not None and grant.slots.limit < min(limit.slots, self._max_slots):
            return grant.share is None
        return limit.rate is not None and grant.tokens_wanted > 0

    def _ask_soon(self, grant: LimitGrant) -> None:
        self._to_ask.add(grant)
        self.wake()

    # Counting jobs

    def count_prefetched(self, job: ClaimedJob) -> None:
        """Count a claimed job as prefetched."""
        job.grants = self.book.grants_of_lane(job.queue, job.row["lane"])
        for grant in job.grants:
            grant.prefetched += 1

    def uncount_prefetched(self, job: ClaimedJob) -> None:
        """Stop counting a job as prefetched."""
        for grant in job.grants:
            grant.prefetched -= 1
        job.grants = ()

    def may_start(self, job: ClaimedJob) -> bool:
        for grant in self.book.grants_of_job(job):
            if not grant.may_start:
                self._request(grant, 1)
                return False
        return True

    def may_any_start(self, queue: str) -> bool:
        """Return whether the limits of a whole queue let any job start. If not, ask for more."""
        for grant in self.book.grants_of_queue(queue):
            if not grant.may_start:
                self._request(grant, 1)
                return False
        return True

    def count_start(self, job: ClaimedJob) -> None:
        self.uncount_prefetched(job)
        job.grants = self.book.grants_of_job(job)
        for grant in job.grants:
            grant.start()

    def count_end(self, job: ClaimedJob) -> None:
        for grant in job.grants:
            grant.end()
            if not grant.slots.used:
                self._unused.add(grant)
                self.release_if_wanted(grant)
            if grant.shrink():
                self._ask_soon(grant)
        job.grants = ()

    def undo_start(self, job: ClaimedJob) -> None:
        """Stop counting a job that was started but has not run, and give back its tokens."""
        rated = [grant for grant in job.grants if grant.limit.rate is not None]
        self.count_end(job)
        if rated:
            self._tokens_to_return.update(rated)
            self.wake()

    def recount(self, job: ClaimedJob, *, runs: bool) -> None:
        """Count a job again, because the limits have changed."""
        new = tuple(grant for grant in self.book.grants_of_job(job) if grant not in job.grants)
        for grant in new:
            if runs:
                grant.slots.take()
            else:
                grant.prefetched += 1
        job.grants += new

    @property
    def has_closed_bucket(self) -> bool:
        """Whether jobs wait for a bucket that will have no tokens for a long time."""
        until = time.monotonic() + MAX_BLOCKED_S
        return any(grant.retry_at > until for grant in self._refused)

    def is_closed_for_long(self, job: ClaimedJob) -> bool:
        """Return whether a prefetched job must wait long for a token."""
        until = time.monotonic() + MAX_BLOCKED_S
        return any(
            grant.limit.rate is not None and grant.tokens < 1 and grant.retry_at > until
            for grant in job.grants
        )

    # News

    def note_change(self, key: str) -> None:
        """Note that another worker waits for slots of this key, or has given some back."""
        grant = self.book.get(key)
        if grant is not None and grant not in self._released:
            grant.retry_at = 0.0
            if not grant.slots.limit:
                self.wake()
                return
            grant.is_wanted_elsewhere = True
            if grant.slots.limit > 1:
                self._ask_soon(grant)
            elif time.monotonic() - grant.answered_at >= RECENT_ANSWER_S:
                self.release_if_wanted(grant)

    def note_wait(self, key: str) -> None:
        """Note that another worker still waits for this key.

        It may have begun to wait before this worker had slots.
        """
        grant = self.book.get(key)
        if grant is not None and grant.slots.limit:
            self.note_change(key)

    def release_if_wanted(self, grant: LimitGrant) -> None:
        """Give back a grant at once if another worker wants it and no job uses it here."""
        if grant.is_wanted_elsewhere and grant.slots.limit and not grant.is_busy:
            grant.is_unneeded = True
            self._ask_soon(grant)

    def note_closed(self, key: str, seconds: float) -> None:
        """Note that a bucket was closed for everyone, or opened again."""
        if (grant := self.book.get(key)) is not None:
            grant.retry_at = 0.0
            if seconds > 0:
                grant.tokens_held.limit_to(0)
                grant.retry_at = time.monotonic() + seconds
            self._ask_soon(grant)

    # Requests to the database

    async def tick(self) -> float:
        if not self.book:
            return self._timing.limit_idle
        await asyncio.sleep(ASK_DELAY_S)
        has_looked = self._review()
        is_due = self._is_retry_due()
        self._being_asked, self._to_ask = self._to_ask, set()
        try:
            has_room = await self._give_back_tokens()
            for part in _split_in_statements(
                [grant for grant in self._being_asked if _has_slots(grant)]
            ):
                has_room |= await self._ask_slots(part)
            has_room |= await self._ask_tokens()
        except BaseException:
            self._to_ask |= self._being_asked
            raise
        finally:
            asked, self._being_asked = self._being_asked, set()
            self.answer_count += 1
        self._record_refusals(asked)
        if asked or has_room or has_looked or is_due:
            self._on_room()
        return self._pause()

    def _is_retry_due(self) -> bool:
        """Allow asking again for refused grants whose pause is over. Return whether there were any.

        The claims and starts that need these grants will ask.
        """
        now = time.monotonic()
        due = [grant for grant in self._refused if grant.retry_at <= now]
        self._refused.difference_update(due)
        return bool(due)

    def _review(self) -> bool:
        """Now and then, ask for less where grants are unused, and learn what other workers need.

        Return whether the review was due.
        """
        now = time.monotonic()
        if now - self._reviewed_at < self._timing.limit_idle / 2:
            return False
        self._reviewed_at = now
        self.book.trim()
        for grant in self.book:
            if grant.demand and now - grant.used_at >= self._timing.limit_patience:
                grant.demand = 0
                self._refused.discard(grant)
            if not grant.is_idle:
                grant.used_at = max(grant.used_at, now if not grant.demand else 0.0)
                if grant.is_registered and now - grant.answered_at >= self._timing.limit_idle:
                    self._to_ask.add(grant)
            elif now - grant.used_at >= self._timing.limit_idle:
                if grant.is_registered:
                    self._to_ask.add(grant)
                elif grant not in self._to_ask and not grant.tokens:
                    self._drop(grant)
        return True

    def _drop(self, grant: LimitGrant) -> None:
        self.book.drop(grant)
        for grants in (self._refused, self._unused, self._released):
            grants.discard(grant)

    def _slots_to_ask(self, grant: LimitGrant) -> int:
        limit = grant.limit.slots
        if grant.is_unneeded and not grant.is_busy:
            return 0
        if limit is None or (
            grant.is_idle and time.monotonic() - grant.used_at >= self._timing.limit_idle
        ):
            return 0
        return min(limit, self._max_slots)

    def _slots_to_keep(self, grant: LimitGrant) -> int:
        """Return how many slots may be in use until the answer comes.

        The answer gives none of these slots to other workers.
        """
        if grant.limit.slots is None:
            return grant.slots.used
        return max(min(grant.slots.limit, self._slots_to_ask(grant)), grant.slots.used)

    async def _ask_slots(self, asking: Sequence[LimitGrant]) -> bool:
        lease = await self._lease_keeper.wait_for_lease()
        asks: dict[str, SlotRequest] = {}
        unneeded = {grant for grant in asking if grant.is_unneeded}
        limits = {grant: grant.limit for grant in asking}
        asked_at = time.monotonic()
        for grant in asking:
            # The slots are lowered first and reported then: what others get for them may not be in
            # use here.
            slots_kept = self._slots_to_keep(grant)
            grant.slots.limit = min(grant.slots.limit, slots_kept)
            asks[grant.key] = SlotRequest(self._slots_to_ask(grant), slots_kept)
            # What is reported from here on is newer than the answer.
            grant.is_wanted_elsewhere = False
            grant.retry_at = max(grant.retry_at, asked_at)
        granted = await self._grant(lease, asks)
        if lease != self._lease_keeper.lease:
            return False
        has_room = False
        now = time.monotonic()
        for grant in asking:
            slots, share = granted[grant.key]
            wants = asks[grant.key].wants
            has_room |= (slots or 0) > grant.slots.limit
            grant.slots.limit = slots or 0
            if grant.limit != limits[grant]:
                # The limit has changed meanwhile and is asked about again; until then, its new
                # value holds.
                grant.slots.limit = min(grant.slots.limit, _most_slots(grant))
            grant.is_registered = bool(slots or wants) and slots is not None
            grant.answered_at = now
            grant.share = share if slots and share is not None and slots > share else None
            if slots and not grant.is_busy:
                self._unused.add(grant)
            if slots is not None and slots < wants:
                if grant.retry_at >= asked_at:
                    grant.retry_at = now + self._timing.limit_retry
            elif grant in unneeded and not wants:
                grant.retry_at = now + self._timing.limit_retry * (0.5 + random.random() / 2)
                self._released.add(grant)
            if grant in unneeded:
                grant.is_unneeded = False
            if grant.shrink():
                self._ask_soon(grant)
        if has_room:
            self._reconsider_released()
        return has_room

    def _reconsider_released(self) -> None:
        """Allow asking again for released grants, because another limit has room."""
        spared, self._released = self._released, set()
        for grant in spared:
            grant.retry_at = 0.0

    async def _grant(self, lease: int, asks: dict[str, SlotRequest]) -> dict[str, Granted]:
        try:
            return await self._limits.grant(self._pool, lease, asks)
        except Exception as error:
            if errors.is_state(error, errors.LEASE_LOST):
                self._lease_keeper.lapse(lease)
                raise LeaseLost(str(lease)) from error
            raise

    async def _ask_tokens(self) -> bool:
        now = time.monotonic()
        wants = {
            grant: grant.tokens_wanted
            for grant in self._being_asked
            if grant.limit.rate is not None and grant.retry_at <= now
        }
        has_room = False
        for part in _split_in_statements([grant for grant, want in wants.items() if want]):
            asked_at = time.monotonic()
            for grant in part:
                grant.retry_at = asked_at
            answer_count = await self._limits.take(
                self._pool, {grant.key: wants[grant] for grant in part}
            )
            for grant in part:
                tokens, wait = answer_count[grant.key]
                if tokens and grant.retry_at > asked_at:
                    # The bucket was closed meanwhile, and with it the tokens taken before.
                    continue
                if tokens:
                    has_room = True
                    grant.tokens_held.put(tokens, asked_at)
                    self._with_tokens.add(grant)
                elif wait and grant.retry_at == asked_at:
                    # Otherwise the limit has changed, or was opened again: this answer is older.
                    grant.retry_at = time.monotonic() + wait
        return has_room

    async def _give_back_tokens(self) -> bool:
        """Give back tokens that were not used in time, because other workers may need them now.

        Return whether jobs are prefetched that need such tokens.
        """
        back = Counter({grant: grant.tokens_held.drop_stale() for grant in self._with_tokens})
        self._with_tokens = {grant for grant in back if grant.tokens}
        back += self._tokens_to_return  # The sum keeps only the grants with tokens to return.
        self._tokens_to_return.clear()
        for part in _split_in_statements(list(back)):
            await self._limits.take(self._pool, {grant.key: -back[grant] for grant in part})
        return any(grant.prefetched for grant in back)

    async def flush(self) -> None:
        """Give back all unused tokens, because the worker leaves."""
        for grant in self._with_tokens:
            self._tokens_to_return[grant] += max(grant.tokens, 0)
            grant.tokens_held.limit_to(0)
        await self._give_back_tokens()

    def _record_refusals(self, asked: set[LimitGrant]) -> None:
        now = time.monotonic()
        for grant in asked:
            if grant.retry_at > now and grant.demand:
                self._refused.add(grant)
                continue
            self._refused.discard(grant)
            if grant not in self._to_ask:
                grant.demand = 0

    def _pause(self) -> float:
        """Return the seconds until the next token, retry or review."""
        due = [grant.retry_at for grant in self._refused]
        due += [grant.tokens_held.stale_at for grant in self._with_tokens]
        pause = min(due, default=math.inf) - time.monotonic() - ASK_DELAY_S
        return min(self._timing.limit_idle / 2, max(pause, ASK_DELAY_S / 5))


def _most_slots(grant: LimitGrant) -> int:
    slots = grant.limit.slots
    return UNLIMITED if slots is None else slots


def _has_slots(grant: LimitGrant) -> bool:
    return grant.limit.slots is not None or grant.is_registered


def _split_in_statements(grants: Sequence[LimitGrant]) -> Iterator[Sequence[LimitGrant]]:
    for start in range(0, len(grants), MAX_KEYS_PER_STATEMENT):
        yield grants[start : start + MAX_KEYS_PER_STATEMENT]
