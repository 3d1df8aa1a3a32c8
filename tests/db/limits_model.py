"""Lanes, slots and buckets as a few lines of Python: what the SQL must agree with."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tests.db.model import Model

SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Rule:
    """What limits a key."""

    slots: int | None = None
    rate: float | None = None
    burst: float | None = None


FREE = Rule()


@dataclass(slots=True)
class ModelBucket:
    """What was in it, and when; and what those wait for who were refused."""

    level: float
    filled_at: datetime
    closed_until: datetime | None = None
    booked: float | None = None


@dataclass(slots=True)
class LimitedModel(Model):
    """The queue with lanes and limits. Lanes of jobs, and what each lease holds of each key."""

    lanes: dict[int, tuple[str, int]] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    grants: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    buckets: dict[str, ModelBucket] = field(default_factory=dict)

    def rule(self, key: str) -> Rule:
        """Its own rule, or that of the longest pattern that it falls under."""
        if key in self.rules:
            return self.rules[key]
        patterns = [each for each in self.rules if each.endswith("*") and key.startswith(each[:-1])]
        return self.rules[max(patterns, key=len)] if patterns else FREE

    # Lanes

    def lane(self, tenant: str, task: str, limits: Iterable[str]) -> str:
        """Who takes the turn, and the keys that limit it; a task's own only if it has a limit."""
        own = [] if self.rule(f"task:{task}") is FREE else [f"task:{task}"]
        return SEPARATOR.join([tenant, *sorted({*limits, *own})])

    def limits_of(self, job: int) -> list[str]:
        return self.lanes[job][0].split(SEPARATOR)[1:]

    def running(self, key: str, lease: int) -> int:
        """How many jobs of a key run under a lease."""
        mine = [id for id in self.in_state("running") if self.jobs[id].lease == lease]
        return sum(key in self.limits_of(id) for id in mine)

    # Slots

    def held(self, key: str, but: int | None = None) -> int:
        """What all living leases hold, or all but one."""
        return sum(
            slots
            for (of, lease), (slots, _) in self.grants.items()
            if of == key and lease != but and self.lives(lease)
        )

    def lacking(self, key: str) -> int:
        """How many jobs run under living leases without a slot."""
        return sum(
            max(0, self.running(key, lease) - self.grants.get((key, lease), (0, 0))[0])
            for lease in self.leases
            if self.lives(lease)
        )

    def ask(
        self, lease: int, key: str, wants: int, uses: int
    ) -> list[tuple[int | None, int | None]]:
        """The answers that would be right: slots, and share."""
        self.bury(key, lease)
        most = self.rule(key).slots
        if most is None:
            return [(None, None)]
        wishes = {
            each: wanted for (of, each), (_, wanted) in self.grants.items() if of == key and wanted
        }
        fair, short, odd = share_out({**wishes, lease: wants}, most)
        room = most - self.held(key, but=lease)
        if lease not in short:
            return [(max(uses, min(wants, room)), most)]
        shares = [fair[lease], fair[lease] + 1] if odd else [fair[lease]]
        return [(max(uses, min(share, room)), share) for share in shares]

    def hold(self, lease: int, key: str, slots: int | None, wants: int) -> None:
        self.grants.pop((key, lease), None)
        if slots is not None and slots + wants:
            self.grants[key, lease] = (slots, wants)

    def bury(self, key: str, but: int) -> None:
        """What the dead hold of a key is gone when somebody asks for it."""
        for of, lease in list(self.grants):
            if of == key and lease != but and not self.lives(lease):
                del self.grants[of, lease]

    def close_lease(self, lease: int) -> int:
        self.forget([lease])
        # Without super(): a dataclass with slots is another class than the one it is written in.
        return Model.close_lease(self, lease)

    def forget(self, leases: Collection[int]) -> None:
        self.grants = {at: held for at, held in self.grants.items() if at[1] not in leases}

    # Buckets

    def fill(self, key: str) -> ModelBucket | None:
        """The bucket as it is now; none without a rate."""
        rule = self.rule(key)
        if rule.rate is None or rule.burst is None:
            return None
        bucket = self.buckets.setdefault(key, ModelBucket(math.inf, self.now))
        passed = (self.now - bucket.filled_at).total_seconds()
        runs_in = rule.rate * max(0.0, passed)
        level, booked = min(rule.burst, bucket.level + runs_in), None
        if bucket.booked is not None and (level < rule.burst or self.opens_in(key)):
            booked = bucket.booked - runs_in
        now = ModelBucket(level, self.now, bucket.closed_until, booked)
        if passed < 0:
            self.buckets[key] = now
        return replace(now)

    def opens_in(self, key: str) -> float:
        bucket = self.buckets.get(key)
        if bucket is None or bucket.closed_until is None:
            return 0.0
        return max(0.0, (bucket.closed_until - self.now).total_seconds())

    def wait(self, key: str, level: float, units: float) -> float:
        """Until there are so many units."""
        rate = self.rule(key).rate
        lacking = max(0.0, units - level)
        runs_in = 0.0 if not lacking else lacking / rate if rate else math.inf
        return max(self.opens_in(key), runs_in)

    def take(self, key: str, wants: int) -> tuple[int, float]:
        """How many tokens, and the wait if none."""
        now = self.fill(key)
        if wants > 0 and self.opens_in(key):
            got = 0
        elif now is None or wants < 0:
            got = wants
        else:
            got = max(0, min(wants, math.floor(now.level)))
        wait = 0.0 if got else self.wait(key, now.level if now else math.inf, 1)
        if got and now:
            self.pour(key, now, -got)
        return got, wait

    def reserve(self, key: str, units: float, share: float) -> float | None:
        now, opens_in = self.fill(key), self.opens_in(key)
        assert now is not None
        wait = self.wait(key, now.level, units)
        if not wait:
            self.pour(key, now, -units)
        elif (rate := self.rule(key).rate) and (opens_in or units - now.level > units * 0.1):
            wait = max(wait, opens_in + share * self.book(key, now, units) / rate)
        return wait or None

    def book(self, key: str, now: ModelBucket, units: float) -> float:
        """What must run in, once it is open, for this one and all who were refused before."""
        rule = self.rule(key)
        assert rule.rate is not None
        assert rule.burst is not None
        until_open = rule.rate * self.opens_in(key)
        booked = lacking = units - min(rule.burst, now.level + until_open)
        if now.booked is not None:
            booked = max(lacking, min(now.booked - until_open + units, rule.rate * 300))
        now.booked = booked + until_open
        self.buckets[key] = now
        return booked

    def correct(self, key: str, units: float) -> None:
        if now := self.fill(key):
            if now.booked is not None:
                now.booked -= units
            self.pour(key, now, units)

    def pour(self, key: str, now: ModelBucket, units: float) -> None:
        now.level = min(self.rule(key).burst or 0.0, now.level + units)
        self.buckets[key] = now

    def close_bucket(self, key: str, seconds: float) -> float:
        bucket = self.buckets.setdefault(key, ModelBucket(math.inf, self.now))
        until = self.now + timedelta(seconds=seconds)
        bucket.closed_until = max(bucket.closed_until or until, until)
        return self.opens_in(key)

    def open_bucket(self, key: str) -> bool:
        if was_closed := self.opens_in(key) > 0:
            self.buckets[key].closed_until = self.buckets[key].booked = None
        return was_closed

    # Time

    def sweep(self) -> None:
        """Leases that have long been dead, and buckets that were full and open an hour ago."""
        hour_ago = self.now - timedelta(hours=1)
        owners = {job.lease for job in self.jobs.values()}
        gone = [id for id, end in self.leases.items() if end < hour_ago and id not in owners]
        for lease in gone:
            del self.leases[lease]
        self.forget({lease for _, lease in self.grants} - set(self.leases))
        for key, bucket in list(self.buckets.items()):
            rule, passed = self.rule(key), (hour_ago - bucket.filled_at).total_seconds()
            was_full = rule.rate is None or bucket.level + rule.rate * passed >= (rule.burst or 0)
            was_open = bucket.closed_until is None or bucket.closed_until < hour_ago
            if passed > 0 and was_full and was_open:
                del self.buckets[key]


def share_out(wants: dict[int, int], most: int) -> tuple[dict[int, int], set[int], int]:
    """One slot to each who wants more, round by round: who gets how many, who stays short,
    and how many slots are left that do not go round."""
    given = dict.fromkeys(wants, 0)
    while True:
        hungry = {each for each, wanted in wants.items() if given[each] < wanted}
        left = most - sum(given.values())
        if len(hungry) > left or not hungry:
            return given, hungry, left
        for each in hungry:
            given[each] += 1


@dataclass(slots=True)
class Ledger:
    """What was handed out of one bucket, to see that no stretch of time gave too much of it."""

    rule: Rule
    entries: list[tuple[float, float]] = field(default_factory=list)

    def enter(self, at: float, units: float) -> None:
        """Units that were handed out, or came back, when so much time had passed."""
        self.entries.append((at, units))
        if units > 0:
            handed_out = 0.0
            for since, each in reversed(self.entries):
                handed_out += each
                most = (self.rule.burst or 0) + (self.rule.rate or 0) * (at - since)
                assert handed_out <= most + 1e-6, (self.rule, self.entries)
