"""Whatever the order of events: no job is lost, no superseded token writes, no limit is passed.

Hypothesis plays workers, rescuers and people against the SQL and a model of it. After each step
every job must be in exactly one place and be what the model says. PENSTOCK_LONG=1 plays longer.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

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

from tests.db.engine import NOON
from tests.db.model import Model, Outcome, Settlement
from tests.db.play import LONG, PLAY, Play

# A long game, on a machine that may be busy.
pytestmark = [pytest.mark.timeout(3600 if LONG else 300), pytest.mark.any_server]

TTL = 60.0
# To find a fault takes more games than to find none.
GAMES = settings(PLAY, max_examples=1000 if LONG else 25)

EVERYTHING = """
SELECT id, max_attempts, max_losses, suspect, (begun_token = token) IS TRUE AS has_begun,
       state, attempt, failures, losses, lease, token, last_token
  FROM penstock.job
UNION ALL
SELECT id, max_attempts, max_losses, false, false,
       state, attempt, failures, losses, NULL, NULL, last_token
  FROM penstock.job_history
"""
EMPTY = """
DELETE FROM penstock.job; DELETE FROM penstock.job_history;
DELETE FROM penstock.lease; DELETE FROM penstock.signal;
"""


class Queue(RuleBasedStateMachine):
    """Workers, rescuers and people, and the model that knows what must come of it.

    Few rules with choices inside: Hypothesis leaves whole rules out of many games.
    """

    leases: Bundle[int] = Bundle("leases")
    jobs: Bundle[int] = Bundle("jobs")
    attempts: Bundle[tuple[int, UUID]] = Bundle("attempts")

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play, self.engine = play, play.engine
        self.engine.now = NOON
        self.model = Model(NOON)
        self.attempts_seen: dict[int, int] = {}
        play.run(self.engine.connection.execute(EMPTY))

    @initialize(target=leases)
    def have_two_workers(self) -> Any:
        return multiple(self.open_lease(), self.open_lease())

    @initialize(target=jobs)
    def have_some_jobs(self) -> Any:
        return self.enqueue_some(3, 2, 3, 0.0)

    @rule(
        target=jobs,
        count=st.integers(1, 3),
        max_attempts=st.integers(1, 3),
        max_losses=st.integers(1, 3),
        delay=st.sampled_from([0.0, 0.0, 30.0]),
    )
    def enqueue(self, count: int, max_attempts: int, max_losses: int, delay: float) -> Any:
        return self.enqueue_some(count, max_attempts, max_losses, delay)

    @rule(target=attempts, lease=leases, limit=st.integers(1, 4), begins=st.booleans())
    def claim(self, lease: int, limit: int, begins: bool) -> Any:
        if not self.model.lives(lease):
            with pytest.raises(asyncpg.PostgresError) as caught:
                self.play.run(self.engine.claim(lease, limit))
            assert caught.value.sqlstate == "PS001"
            return multiple()
        ready = len(self.model.in_state("ready"))
        claimed = self.play.run(self.engine.claim(lease, limit))
        assert len(claimed) == min(limit, ready)
        for row in claimed:
            self.model.claim(lease, row["id"], row["token"])
            assert row["attempt"] == self.model.jobs[row["id"]].attempt
        attempts = [(row["id"], row["token"]) for row in claimed]
        if begins:
            self.workers_begin(attempts)
        return multiple(*attempts)

    @rule(given=st.lists(attempts, min_size=1, max_size=4, unique=True))
    def some_begin(self, given: list[tuple[int, UUID]]) -> None:
        """With tokens of any age, several in one call."""
        self.workers_begin(given)

    def workers_begin(self, given: list[tuple[int, UUID]]) -> None:
        rows = self.play.run(
            self.engine.mark_started({"id": id, "token": token} for id, token in given)
        )
        assert rows == dict.fromkeys(self.model.mark_started(given), True)

    @rule(
        given=st.lists(
            st.tuples(attempts, st.sampled_from(Outcome)),
            min_size=1,
            max_size=4,
            unique_by=lambda each: each[0],
        )
    )
    def settle(self, given: list[tuple[tuple[int, UUID], Outcome]]) -> None:
        """With tokens of any age, several in one call."""
        self.settle_as([(id, token, outcome) for (id, token), outcome in given])

    @rule(outcomes=st.lists(st.sampled_from(Outcome), min_size=1, max_size=3))
    def settle_what_runs(self, outcomes: list[Outcome]) -> None:
        running = [(id, self.model.jobs[id].token) for id in self.model.in_state("running")]
        ended = zip(running, outcomes, strict=False)
        self.settle_as([(id, token, outcome) for (id, token), outcome in ended])

    @rule(id=jobs, token=st.sampled_from([None, "new"]), outcome=st.sampled_from(Outcome))
    def settle_with_a_token_that_was_never_given(
        self, id: int, token: str | None, outcome: Outcome
    ) -> None:
        self.settle_as([(id, uuid4() if token else None, outcome)])

    @rule(seconds=st.sampled_from([1, 30, 61]), beating=st.sets(leases, max_size=3))
    def time_passes_and_the_maintenance_runs(self, seconds: int, beating: set[int]) -> None:
        self.model.now += timedelta(seconds=seconds)
        self.engine.now = self.model.now
        for lease in beating:
            self.heartbeat(lease)
        rows = self.play.run(self.engine.call("rescue_v1", now=self.model.now))
        assert {row["id"]: row["lost"] for row in rows} == self.model.rescue()
        [row] = self.play.run(self.engine.call("promote_v1", now=self.model.now))
        assert row["promoted"] == self.model.promote()

    @rule(id=jobs, wish=st.sampled_from(["cancel", "retry"]))
    def somebody_wishes(self, id: int, wish: str) -> None:
        answers = self.play.run(self.engine.answers(f"{wish}_v1", id, now=self.model.now))
        assert answers == {id: self.model.cancel(id) if wish == "cancel" else self.model.retry(id)}

    @rule(
        target=leases,
        lease=consumes(leases),
        keep=st.none() | st.lists(jobs, min_size=1, max_size=3),
    )
    def a_session_gives_back_strangers_or_ends(self, lease: int, keep: list[int] | None) -> int:
        if keep is None:
            closed = self.engine.value("close_lease_v1", lease=lease, now=self.model.now)
            assert self.play.run(closed) == self.model.close_lease(lease)
            return self.open_lease()
        released = self.engine.value("release_jobs_v1", lease=lease, keep=keep, now=self.model.now)
        assert self.play.run(released) == self.model.release(lease, keep)
        return lease

    @invariant()
    def every_job_is_in_one_place_and_as_it_should_be(self) -> None:
        rows = self.play.run(self.engine.connection.fetch(EVERYTHING))
        assert sorted(row["id"] for row in rows) == sorted(self.model.jobs)
        for row in rows:
            id, found, job = row["id"], tuple(row.values()), self.model.jobs[row["id"]]
            assert (id, *found[5:]) == (id, *job.observed())
            assert (id, row["suspect"], row["has_begun"]) == (id, job.suspect, job.has_begun)
            assert row["failures"] <= row["max_attempts"]
            assert row["losses"] <= row["max_losses"]
            assert row["attempt"] >= self.attempts_seen.get(id, 0)
            self.attempts_seen[id] = row["attempt"]

    def open_lease(self) -> int:
        lease = self.play.run(self.engine.lease(ttl=TTL))
        self.model.leases[lease] = self.model.now + timedelta(seconds=TTL)
        return lease

    def enqueue_some(self, count: int, max_attempts: int, max_losses: int, delay: float) -> Any:
        ids = self.play.run(self.engine.enqueue(count, max_attempts=max_attempts, delays=delay))
        limit = "UPDATE penstock.job SET max_losses = $1 WHERE id = ANY ($2)"
        self.play.run(self.engine.connection.execute(limit, max_losses, ids))
        for id in ids:
            self.model.enqueue(id, max_attempts, max_losses, delay)
        return multiple(*ids)

    def heartbeat(self, lease: int) -> None:
        lives = self.model.lives(lease)
        beat = self.engine.call("heartbeat_v1", lease=lease, ttl=TTL, now=self.model.now)
        [row] = self.play.run(beat)
        assert row["alive"] == lives
        if lives:
            self.model.leases[lease] = self.model.now + timedelta(seconds=TTL)

    def settle_as(self, given: list[tuple[int, UUID | None, Outcome]]) -> None:
        asked = [
            Settlement.of(outcome, self.model.jobs[id].failures, self.model.jobs[id].max_attempts)
            for id, _, outcome in given
        ]
        rows = self.play.run(
            self.engine.call(
                "settle_v1",
                ids=[id for id, _, _ in given],
                tokens=[token for _, token, _ in given],
                states=[each.state for each in asked],
                reasons=[each.reason for each in asked],
                delays=[each.delay for each in asked],
                failures=[each.failure for each in asked],
                now=self.model.now,
            )
        )
        # Of two attempts of one job in one call, the one that owns it comes first.
        together = sorted(
            zip(given, asked, strict=True),
            key=lambda each: each[0][1] != self.model.jobs[each[0][0]].token,
        )
        expected = {
            (id, token): self.model.settle(id, token, each) for (id, token, _), each in together
        }
        refused = {key: answer for key, answer in expected.items() if answer != "settled"}
        assert {(row["id"], row["token"]): row["answer"] for row in rows} == refused


def test_no_order_of_events_loses_a_job_or_lets_a_stale_write_in(play: Play) -> None:
    run_state_machine_as_test(lambda: Queue(play), settings=GAMES)


FAULTS = {
    "finish_jobs_v1": (" AND j.token IS NOT DISTINCT FROM g.token", ""),
    "reschedule_v1": (" AND j.token = g.token\n        RETURNING", "\n        RETURNING"),
    # A loss for what was only fetched.
    "mark_worker_lost_v1": ("p_has_begun OR (j.begun_token = j.token) IS TRUE", "true"),
}


@pytest.mark.parametrize("function", FAULTS)
def test_state_machine_catches_a_missing_token_check(play: Play, function: str) -> None:
    play.break_function(function, *FAULTS[function])
    seek = settings(PLAY, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(lambda: Queue(play), settings=seek)
