"""Whatever the order of events: no limit is passed, no bucket gives too much, no lane is confused.

Hypothesis plays tenants, workers that die and people who change limits against the SQL and a model
of it, by a clock of its own. Workers are honest: they ask for slots and tokens before they claim.
"""

import json
import math
from collections import defaultdict
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.db.engine import LONG_AGO, NOON
from tests.db.limits_model import FREE, SEPARATOR, Ledger, LimitedModel, Rule
from tests.db.model import Outcome, Settlement
from tests.db.play import LONG, PLAY, Play

# A long game, on a machine that may be busy.
pytestmark = [pytest.mark.timeout(3600 if LONG else 300), pytest.mark.any_server]

GAMES = settings(PLAY, max_examples=500 if LONG else 25, stateful_step_count=80 if LONG else 40)
TTL = 60.0

TENANTS = ["acme", "bob", "zoe"]
KEYS = ["account:a", "account:b", "api", "task:work"]
# What people set limits for; of two patterns that fit the longer one counts.
SET = [*KEYS, "account:*", "a*"]

EVERYTHING = """
SELECT id, lane, priority, state, attempt, failures, losses, lease, token, last_token
  FROM penstock.job
UNION ALL
SELECT id, lane, priority, state, attempt, failures, losses, NULL, NULL, last_token
  FROM penstock.job_history
"""
READY = """
SELECT id, lane, priority, ready_at FROM penstock.job WHERE state = 'ready'
 ORDER BY lane, priority DESC, ready_at, id
"""
EMPTY = """
DELETE FROM penstock.job; DELETE FROM penstock.job_history; DELETE FROM penstock.lease;
DELETE FROM penstock.grant; DELETE FROM penstock.bucket; DELETE FROM penstock.limit_setting;
INSERT INTO penstock.queue (name, fair) VALUES ('default', true)
    ON CONFLICT (name) DO UPDATE SET fair = true;
"""
SET_LIMIT = """
INSERT INTO penstock.limit_setting (key, slots, rate, burst) VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO UPDATE SET slots = $2, rate = $3, burst = $4
"""

# Halves and whole seconds: then floats are exact, in Postgres as in Python.
rates = st.sampled_from([None, None, 0.0, 0.5, 2.0])
keys = st.sampled_from(KEYS)


class FairQueue(RuleBasedStateMachine):
    """Tenants, workers and people, and the model that knows what must come of it."""

    leases: Bundle[int] = Bundle("leases")

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play, self.engine = play, play.engine
        self.engine.now = NOON
        self.model = LimitedModel(NOON)
        # How far the clock has gone forward, whatever it was set back in between.
        self.passed = 0.0
        self.ledgers: dict[str, Ledger] = {}
        # What may be held, and run without a slot: for what was there before a limit was set.
        self.may_hold: dict[str, int] = defaultdict(int)
        self.may_lack: dict[str, int] = defaultdict(int)
        play.run(self.engine.connection.execute(EMPTY))

    def call(self, function: str, **arguments: Any) -> list[asyncpg.Record]:
        return self.play.run(self.engine.call(function, now=self.model.now, **arguments))

    def value(self, function: str, **arguments: Any) -> Any:
        [row] = self.call(function, **arguments)
        return row[0]

    @initialize(target=leases)
    def have_three_workers(self) -> Any:
        return multiple(self.open_lease(), self.open_lease(), self.open_lease())

    @initialize()
    def have_some_limits_and_jobs(self) -> None:
        self.change_limit("api", Rule(slots=3))
        self.change_limit("account:*", Rule(slots=2, rate=2.0, burst=5.0))
        for tenant in TENANTS:
            self.enqueue(4, tenant, {"api"}, "work", 0, 0.0)

    @rule(
        count=st.integers(1, 4),
        tenant=st.sampled_from(TENANTS),
        limits=st.sets(st.sampled_from(["account:a", "account:b", "api"]), max_size=2),
        task=st.sampled_from(["mail", "work"]),
        priority=st.sampled_from([0, 0, 5]),
        delay=st.sampled_from([0.0, 0.0, 30.0]),
    )
    def enqueue(
        self, count: int, tenant: str, limits: set[str], task: str, priority: int, delay: float
    ) -> None:
        given: dict[str, Any] = {
            "tasks": task,
            "args": "{}",
            "tenants": tenant,
            "limits": json.dumps(sorted(limits, reverse=True)) if limits else None,
            "priorities": priority,
            "delays": delay,
        }
        rows = self.call("enqueue_v1", **{name: [each] * count for name, each in given.items()})
        lane = self.model.lane(tenant, task, limits)
        for row in rows:
            self.model.enqueue(row["id"], 5, 3, delay)
            self.model.lanes[row["id"]] = (lane, priority)

    @rule(
        key=st.sampled_from(SET),
        slots=st.none() | st.integers(0, 4),
        rate=rates,
        burst=st.sampled_from([1.0, 2.0, 5.0]),
    )
    def somebody_sets_a_limit(
        self, key: str, slots: int | None, rate: float | None, burst: float
    ) -> None:
        self.change_limit(key, Rule(slots, rate, None if rate is None else burst))

    @rule(
        lease=st.none() | leases,
        wants=st.dictionaries(keys, st.integers(0, 6), min_size=1),
        each=st.lists(st.integers(1, 6), min_size=3, max_size=3),
    )
    def one_or_all_ask_for_slots(
        self, lease: int | None, wants: dict[str, int], each: list[int]
    ) -> None:
        if lease is not None:
            self.ask(lease, wants)
        else:
            self.all_ask(min(wants), each)

    @rule(
        workers=st.sets(leases, min_size=1, max_size=3),
        takes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
        turn=st.integers(0, 5),
        limit=st.integers(1, 5),
    )
    def workers_claim_by_turns(
        self, workers: set[int], takes: list[int], turn: int, limit: int
    ) -> None:
        for lease in sorted(workers):
            self.work(lease, takes, turn, limit)

    @rule(outcomes=st.lists(st.sampled_from(Outcome), min_size=1, max_size=2))
    def jobs_end(self, outcomes: list[Outcome]) -> None:
        given = list(zip(self.model.in_state("running"), outcomes, strict=False))
        for id, outcome in given:
            job = self.model.jobs[id]
            asked = Settlement.of(outcome, job.failures, job.max_attempts)
            rows = self.call(
                "settle_v1",
                ids=[id],
                tokens=[job.token],
                states=[asked.state],
                reasons=[asked.reason],
                delays=[asked.delay],
                failures=[asked.failure],
            )
            assert rows == []
            assert self.model.settle(id, job.token, asked) == "settled"

    @rule(
        seconds=st.sampled_from([1, 10, 30, 61, 7200, -5]),
        dying=st.sets(leases, max_size=2),
        is_rescued=st.booleans(),
    )
    def time_passes(self, seconds: int, dying: set[int], is_rescued: bool) -> None:
        """Who does not renew its lease is dead in a while. Now and then the clock is set back."""
        if seconds < 0 and self.has_jobs_of_the_dead():
            return
        for lease in set(self.model.leases) - dying:
            self.heartbeat(lease, TTL + max(0, seconds))
        self.passed += max(0, seconds)
        self.model.now += timedelta(seconds=seconds)
        self.engine.now = self.model.now
        if is_rescued:
            rows = self.call("rescue_v1")
            assert {row["id"]: row["lost"] for row in rows} == self.model.rescue()
        [row] = self.call("promote_v1")
        assert row["promoted"] == self.model.promote()
        self.call("sweep_v1")
        self.model.sweep()

    @rule(target=leases, lease=consumes(leases))
    def a_session_ends_and_another_begins(self, lease: int) -> int:
        assert self.value("close_lease_v1", lease=lease) == self.model.close_lease(lease)
        return self.open_lease()

    @rule(
        key=keys,
        use=st.sampled_from(["take", "give back", "spend", "correct", "close", "open"]),
        units=st.sampled_from([0.5, 1.0, 2.0, 3.0]),
        seconds=st.sampled_from([0.0, 5.0, 45.0]),
        share=st.sampled_from([0.5, 1.0]),
    )
    def somebody_uses_a_bucket(
        self, key: str, use: str, units: float, seconds: float, share: float
    ) -> None:
        match use:
            case "take":
                self.take({key: int(units), "api": 1})
            case "give back":
                self.take({key: -int(units)})
            case "spend":
                for _ in range(3):
                    self.spend(key, units, share)
            case "correct":
                self.correct(key, units - 1.5)
            case "close":
                closed = self.value("close_bucket_v1", key=key, seconds=seconds)
                assert closed == self.model.close_bucket(key, seconds)
            case "open":
                assert self.value("open_bucket_v1", key=key) == self.model.open_bucket(key)

    @invariant()
    def every_job_is_in_one_place_and_as_it_should_be(self) -> None:
        rows = self.play.run(self.engine.connection.fetch(EVERYTHING))
        assert sorted(row["id"] for row in rows) == sorted(self.model.jobs)
        for id, lane, priority, *observed in rows:
            assert (lane, priority) == self.model.lanes[id]
            assert (id, *observed) == (id, *self.model.jobs[id].observed())

    @invariant()
    def grants_are_what_was_answered_and_keep_to_the_limit(self) -> None:
        sql = "SELECT key, lease, slots, wanted FROM penstock.grant"
        rows = self.play.run(self.engine.connection.fetch(sql))
        found = {(row["key"], row["lease"]): (row["slots"], row["wanted"]) for row in rows}
        assert found == self.model.grants
        for key in KEYS:
            if self.model.rule(key).slots is not None:
                assert self.model.held(key) <= self.may_hold[key]
                assert self.model.lacking(key) <= self.may_lack[key]
                self.may_lack[key] = self.model.lacking(key)

    @invariant()
    def buckets_hold_what_they_should(self) -> None:
        sql = "SELECT key, level, filled_at, closed_until, booked FROM penstock.bucket"
        rows = self.play.run(self.engine.connection.fetch(sql))
        assert {row["key"]: tuple(row)[1:] for row in rows} == {
            key: (bucket.level, bucket.filled_at, bucket.closed_until, bucket.booked)
            for key, bucket in self.model.buckets.items()
        }

    def open_lease(self) -> int:
        lease = self.play.run(self.engine.lease(ttl=TTL))
        self.model.leases[lease] = self.model.now + timedelta(seconds=TTL)
        return lease

    def heartbeat(self, lease: int, ttl: float) -> None:
        [row] = self.call("heartbeat_v1", lease=lease, ttl=ttl)
        assert row["alive"] == self.model.lives(lease)
        if row["alive"]:
            self.model.leases[lease] = self.model.now + timedelta(seconds=ttl)

    def has_jobs_of_the_dead(self) -> bool:
        owners = {self.model.jobs[id].lease for id in self.model.in_state("running")}
        return any(lease is not None and not self.model.lives(lease) for lease in owners)

    def expect_dead(self, call: Any) -> None:
        with pytest.raises(asyncpg.PostgresError) as caught:
            call()
        assert caught.value.sqlstate == "PS001"

    def change_limit(self, key: str, limit: Rule) -> None:
        execute = self.engine.connection.execute
        if limit == FREE:
            delete = "DELETE FROM penstock.limit_setting WHERE key = $1"
            self.play.run(execute(delete, key))
            self.model.rules.pop(key, None)
        else:
            self.play.run(execute(SET_LIMIT, key, limit.slots, limit.rate, limit.burst))
            self.model.rules[key] = limit
        for each in KEYS:
            found = self.model.rule(each)
            if each not in self.ledgers or self.ledgers[each].rule != found:
                self.ledgers[each] = Ledger(found)
            self.may_hold[each] = max(found.slots or 0, self.model.held(each))
            self.may_lack[each] = self.model.lacking(each)

    def ask(self, lease: int, wants: dict[str, int]) -> dict[str, tuple[int | None, int | None]]:
        """Slots and share of each key; the uses are true."""
        uses = {key: self.model.running(key, lease) for key in wants}
        arguments: dict[str, Any] = {
            "lease": lease,
            "keys": list(wants),
            "wants": list(wants.values()),
            "uses": list(uses.values()),
        }
        if not self.model.lives(lease):
            self.expect_dead(lambda: self.call("grant_slots_v1", **arguments))
            return {}
        rows = self.call("grant_slots_v1", **arguments)
        assert [row["key"] for row in rows] == sorted(wants)
        for key, slots, share in rows:
            lacking = self.model.lacking(key)
            expected = self.model.ask(lease, key, wants[key], uses[key])
            assert (slots, share) in expected
            self.model.hold(lease, key, slots, wants[key])
            # Who says now that it runs more than it holds. Otherwise it goes down, never up.
            most = self.may_hold[key] + max(0, lacking - self.model.lacking(key))
            self.may_hold[key] = max(
                self.model.rule(key).slots or 0, min(most, self.model.held(key))
            )
        return {row["key"]: (row["slots"], row["share"]) for row in rows}

    def all_ask(self, key: str, wants: list[int]) -> None:
        """They say what they want, go down to their shares, go up: no wanted slot lies idle."""
        living = [lease for lease in self.model.leases if self.model.lives(lease)]
        wanted = dict(zip(living, wants, strict=False))
        answers = {}
        for _ in range(3):
            answers = {lease: self.ask(lease, {key: wanted[lease]})[key] for lease in wanted}
        most = self.model.rule(key).slots
        if most is None or len(living) > len(wanted):
            return
        fair = {lease: min(wanted[lease], share or 0) for lease, (_, share) in answers.items()}
        assert sum(fair.values()) == min(most, sum(wanted.values()))
        if all(self.model.running(key, lease) <= fair[lease] for lease in living):
            assert {lease: slots for lease, (slots, _) in answers.items()} == fair

    def take(self, wants: dict[str, int]) -> dict[str, int]:
        rows = self.call("take_tokens_v1", keys=list(wants), wants=list(wants.values()))
        assert [row["key"] for row in rows] == sorted(wants)
        for key, got, wait in rows:
            assert (got, wait) == self.model.take(key, wants[key])
            self.hand_out(key, got)
        return {row["key"]: row["got"] for row in rows}

    def spend(self, key: str, units: float, share: float) -> None:
        burst = self.model.rule(key).burst
        if burst is None or units > burst:
            with pytest.raises(asyncpg.PostgresError) as caught:
                self.value("reserve_budget_v1", key=key, units=units)
            assert caught.value.sqlstate == ("PS006" if burst is None else "PS005")
            return
        wait = self.value("reserve_budget_v1", key=key, units=units, share=share)
        assert wait == self.model.reserve(key, units, share)
        if wait is None:
            self.hand_out(key, units)

    def correct(self, key: str, units: float) -> None:
        self.value("adjust_budget_v1", key=key, units=units)
        self.model.correct(key, units)
        # What it has spent beyond its reservation is spent, and less is left for the others.
        self.hand_out(key, min(0.0, -units))

    def hand_out(self, key: str, units: float) -> None:
        if self.model.rule(key).rate is not None:
            self.ledgers[key].enter(self.passed, units)

    def work(self, lease: int, takes: list[int], turn: int, limit: int) -> None:
        """From some lines, as many of each as its slots and tokens allow."""
        ready = self.play.run(self.engine.connection.fetch(READY))
        lines = list(dict.fromkeys((row["lane"], row["priority"]) for row in ready))
        scanned = self.play.run(self.engine.call("scan_lanes_v1", queue="default"))
        assert [(row["lane"], row["priority"]) for row in scanned] == lines
        if not self.model.lives(lease):
            self.expect_dead(lambda: self.claim(lease, [("acme", 0)], [1], limit))
            return
        turns = lines[turn:] + lines[:turn]
        allowed = self.allowed(lease, dict(zip(turns, takes, strict=False)), limit)
        claimed = self.claim(lease, list(allowed), list(allowed.values()), limit)
        # What comes first in each line, and nothing of any other.
        expected = [
            row["id"]
            for line, take in allowed.items()
            for row in [each for each in ready if (each["lane"], each["priority"]) == line][:take]
        ]
        assert sorted(row["id"] for row in claimed) == sorted(expected[:limit])
        for row in claimed:
            self.model.claim(lease, row["id"], row["token"])
        self.give_back_tokens(allowed, claimed)

    def allowed(
        self, lease: int, takes: dict[tuple[str, int], int], limit: int
    ) -> dict[tuple[str, int], int]:
        """What an honest worker may take of each line, once it has asked."""
        limits = {line: line[0].split(SEPARATOR)[1:] for line in takes}
        wanted = sorted({key for line in takes for key in limits[line]})
        if not wanted:
            return takes
        room = {
            key: math.inf if slots is None else slots - self.model.running(key, lease)
            for key, (slots, _) in self.ask(lease, dict.fromkeys(wanted, 3)).items()
        }
        allowed = {}
        for line, take in takes.items():
            take = int(min([take, *(room[key] for key in limits[line])]))
            if take <= 0:
                continue
            if limits[line]:
                got = self.take(dict.fromkeys(limits[line], take))
                enough = min(got.values())
                self.return_tokens({key: had - enough for key, had in got.items()})
                take = enough
            if take:
                allowed[line] = take
                for key in limits[line]:
                    room[key] -= take
        return allowed

    def return_tokens(self, surplus: dict[str, int]) -> None:
        if back := {key: -units for key, units in surplus.items() if units}:
            self.take(back)

    def give_back_tokens(
        self, allowed: dict[tuple[str, int], int], claimed: list[asyncpg.Record]
    ) -> None:
        """For jobs that were not there."""
        surplus: dict[str, int] = defaultdict(int)
        for line, take in allowed.items():
            found = sum((row["lane"], row["priority"]) == line for row in claimed)
            for key in line[0].split(SEPARATOR)[1:]:
                surplus[key] += take - found
        self.return_tokens(surplus)

    def claim(
        self, lease: int, lines: list[tuple[str, int]], takes: list[int], limit: int
    ) -> list[asyncpg.Record]:
        return self.call(
            "claim_v1",
            lease=lease,
            queue="default",
            lanes=[lane for lane, _ in lines],
            priorities=[priority for _, priority in lines],
            cursor_times=[LONG_AGO] * len(lines),
            cursor_ids=[0] * len(lines),
            takes=takes,
            limit=limit,
        )


def test_no_order_of_events_passes_a_limit_or_confuses_lanes(play: Play) -> None:
    run_state_machine_as_test(lambda: FairQueue(play), settings=GAMES)


FAULTS = [
    ("grant_slots_v1", "a.most - coalesce(o.slots, 0)", "a.most"),
    ("grant_slots_v1", "greatest(a.uses, least(", "greatest(0, least("),
    ("grant_slots_v1", "s.turn % s.among < s.remaining % s.among", "s.remaining % s.among > 0"),
    ("fill_bucket_v1", "level := least(burst, ", "level := least(NULL, "),
    ("reserve_budget_v1", "v.booked - v_opening + p_units", "v.booked - v_opening"),
    ("claim_v1", "LIMIT l.take", "LIMIT p_limit"),
]


# A third of them in short; all in the long form.
@pytest.mark.parametrize(("function", "good", "bad"), FAULTS if LONG else FAULTS[::3])
def test_the_same_play_finds_faults_that_are_put_in(
    play: Play, function: str, good: str, bad: str
) -> None:
    play.break_function(function, good, bad)
    seek = settings(GAMES, max_examples=100, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(lambda: FairQueue(play), settings=seek)
