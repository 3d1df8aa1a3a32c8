"""Whatever the order of events: keys have one holder, batches count right, no child runs too early.

Hypothesis plays callers, workers that die and people against the SQL and a model of it, by a clock
of its own. At the end of each game all that lives is run to its end. PENSTOCK_LONG=1 plays longer.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.db.engine import NOON
from tests.db.model import FINAL, Outcome, Settlement
from tests.db.orchestration_model import (
    LIVE,
    ModelBatch,
    OrchestrationModel,
    Refused,
    Request,
    Unique,
)
from tests.db.orchestration_moves import MOMENTS, WISHES, Draft, moves
from tests.db.orchestration_sql import (
    EMPTY,
    EVERYTHING,
    IN_ORDER,
    NEW_BATCH,
    NEW_WORKFLOW,
    ORPHANS,
    STAGE,
    BatchRow,
    EdgeRow,
    JobRow,
    KeyRow,
    Look,
    columns,
)
from tests.db.play import LONG, PLAY, Play

pytestmark = pytest.mark.any_server

GAMES = settings(PLAY, max_examples=500 if LONG else 12, stateful_step_count=60 if LONG else 30)
TTL = 60.0


class Orchestra(RuleBasedStateMachine):
    """Callers, workers and people, and the model that knows what must come of it."""

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play, self.engine = play, play.engine
        self.model = OrchestrationModel(NOON)
        self.known: list[int] = []
        self.members: dict[int, list[int]] = {}
        self.attempts: list[tuple[int, UUID]] = []
        self.attempts_seen: dict[int, int] = {}
        play.run(self.engine.connection.execute(EMPTY))

    def call(self, function: str, **arguments: Any) -> list[asyncpg.Record]:
        return self.play.run(self.engine.call(function, now=self.model.now, **arguments))

    def value(self, function: str, **arguments: Any) -> Any:
        [row] = self.call(function, **arguments)
        return row[0]

    def fetch(self, sql: str, *values: Any) -> list[asyncpg.Record]:
        return self.play.run(self.engine.connection.fetch(sql, *values))

    def look(self) -> Look:
        [(jobs, edges, keys, batches)] = self.fetch(EVERYTHING)
        return Look(
            [JobRow(*row) for row in jobs],
            [EdgeRow(*row) for row in edges],
            [KeyRow(*row) for row in keys],
            [BatchRow(*row) for row in batches],
        )

    @initialize()
    def have_workers_a_batch_and_a_workflow(self) -> None:
        self.leases = [self.open_lease(), self.open_lease()]
        self.open_batch(frozenset(MOMENTS))
        self.enqueue_all([Request(), Request()], min(self.model.batches), None)
        self.enqueue_all([Request(unique=Unique("a"), delay=30.0)], None, None)
        # One step completes, one fails, and the third waits for a person.
        joins = Request(steps=((1, "cancel"), (2, "wait")))
        last = Request(steps=((3, "cancel"),))
        self.enqueue_all([Request(), Request(), joins, last], None, self.new_workflow())
        self.claim_some(self.leases[0], 10)
        ends = [Outcome.DONE, Outcome.DISCARD, Outcome.DONE, Outcome.DISCARD]
        running = self.model.in_state("running")
        self.settle_as(
            [(id, self.model.jobs[id].token, end) for id, end in zip(running, ends, strict=True)]
        )

    @rule(move=moves)
    def somebody_moves(self, move: tuple[str, dict[str, Any]]) -> None:
        """One rule for all: of several, Hypothesis leaves some out of each game."""
        name, given = move
        getattr(self, name)(**given)

    def callers_enqueue(self, given: list[Draft], into: str, pick: int | None) -> None:
        """Plain and unique ones, into a batch, a new workflow or one that there is."""
        batch = self.batch_for(pick or 0) if into in ("batch", "both") else None
        if into in ("", "batch"):
            self.enqueue_all([self.request(draft) for draft in given], batch, None)
            return
        flows = list(self.members)
        workflow = self.new_workflow() if pick is None else flows[pick % len(flows)]
        own = self.members[workflow]
        # Often after such as have ended, and before such as have not begun.
        ended = [id for id in own if not self.model.is_live(id)]
        waiting = [id for id in own if self.model.may_wait(id, workflow)]
        parents = ended if ended and pick and pick % 2 else own
        requests = [
            self.request(draft, place, parents, waiting or own) for place, draft in enumerate(given)
        ]
        self.enqueue_all(requests, batch, workflow)

    def workers_claim_and_settle(self, pick: int, limit: int, given: list[Outcome]) -> None:
        lease = self.leases[pick % len(self.leases)]
        if not self.model.lives(lease):
            with pytest.raises(asyncpg.PostgresError) as caught:
                self.claim_some(lease, limit)
            assert caught.value.sqlstate == "PS001"
        else:
            self.claim_some(lease, limit)
        running = [(id, self.model.jobs[id].token) for id in self.model.in_state("running")]
        ended = zip(running, given, strict=False)
        self.settle_as([(id, token, outcome) for (id, token), outcome in ended])

    def workers_settle_with_tokens_of_any_age(self, given: dict[int, Outcome]) -> None:
        if self.attempts:
            chosen = {
                self.attempts[-1 - pick % len(self.attempts)]: each for pick, each in given.items()
            }
            self.settle_as([(id, token, outcome) for (id, token), outcome in chosen.items()])

    def time_passes(self, seconds: int, dying: int, sweeps: bool, ends: int | None) -> None:
        """Some do not renew their lease; the maintenance runs; now and then a session ends."""
        for lease in self.leases[dying:]:
            self.heartbeat(lease, TTL + seconds)
        self.model.now += timedelta(seconds=seconds)
        self.maintain(sweeps)
        if ends is not None:
            self.end_session(ends % len(self.leases))

    def somebody_wishes(self, wish: str, chosen: list[int]) -> None:
        among = [id for id, job in self.model.jobs.items() if job.state in WISHES[wish]]
        # Now and then of one that cannot be so, or is there no more.
        among = self.known if chosen[0] % 8 == 0 or not among else among
        ids = list(dict.fromkeys(among[-1 - pick % len(among)] for pick in chosen))
        match wish:
            case "cancel":
                rows, expected = self.call("cancel_v1", ids=ids), self.model.cancel_all(ids)
            case "retry":
                rows, expected = self.call("retry_v1", ids=ids), self.model.retry_all(ids)
            case "redrive":
                spacing = 20.0 if chosen[0] % 2 else None
                rows = self.call("redrive_v1", ids=ids, spacing=spacing)
                expected = self.model.redrive(ids, spacing)
            case "unblock":
                rows, expected = self.call("unblock_v1", ids=ids), self.model.unblock(ids)
            case _:
                rows, expected = self.call("delete_v1", ids=ids), self.model.delete(ids)
        assert {row["id"]: row["answer"] for row in rows} == expected

    def a_batch_is_opened_closed_or_folded(self, use: str, moments: set[str]) -> None:
        if use == "open":
            self.open_batch(frozenset(moments))
        elif use == "close":
            self.close_batches(list(self.model.batches)[-1:])
        self.fold()
        if use == "fold twice":
            assert self.value("fold_v1") == 0

    # What must be so after each step

    @invariant()
    def all_is_as_it_should_be(self) -> None:
        found = self.look()
        self.check_that_every_job_is_in_one_place(found.jobs)
        self.check_that_jobs_are_blocked_until_their_parents_are_counted(found.jobs, found.edges)
        self.check_that_keys_have_a_holder_that_lives_or_a_time_to_end(found.keys)
        self.check_that_batches_count_right(found.batches)

    def check_that_every_job_is_in_one_place(self, rows: list[JobRow]) -> None:
        assert sorted(row.id for row in rows) == sorted(self.model.jobs)
        for row in rows:
            job = self.model.jobs[row.id]
            links = (job.max_attempts, job.batch, job.workflow, job.key)
            assert row[:-1] == (row.id, *job.observed(), *links)
            assert row.failures <= row.max_attempts
            assert row.attempt >= self.attempts_seen.get(row.id, 0)
            self.attempts_seen[row.id] = row.attempt

    def check_that_jobs_are_blocked_until_their_parents_are_counted(
        self, rows: list[JobRow], edges: list[EdgeRow]
    ) -> None:
        assert {edge[:2]: edge[2:] for edge in edges} == {
            pair: (edge.on_failure, edge.satisfied) for pair, edge in self.model.edges.items()
        }
        uncounted: dict[int, list[EdgeRow]] = defaultdict(list)
        for edge in edges:
            if not edge.satisfied:
                uncounted[edge.child].append(edge)
        for row in rows:
            if row.state in LIVE:
                assert row.pending == len(uncounted[row.id])
                assert (row.state == "blocked") == (row.pending > 0)
                for edge in uncounted[row.id]:
                    assert edge.on_failure == "wait" or self.model.is_live(edge.parent)

    def check_that_keys_have_a_holder_that_lives_or_a_time_to_end(self, rows: list[KeyRow]) -> None:
        assert {row.key: row[1:] for row in rows} == {
            key: (claim.job, claim.keep, claim.until, claim.expires_at)
            for key, claim in self.model.keys.items()
        }
        for row in rows:
            assert self.model.is_live(row.job) == (row.expires_at is None)
            assert self.model.jobs[row.job].key == row.key

    def check_that_batches_count_right(self, rows: list[BatchRow]) -> None:
        assert sorted(row.id for row in rows) == sorted(self.model.batches)
        for row in rows:
            batch = self.model.batches[row.id]
            assert row[1:6] == batch.row()
            assert row.total == row.pending + row.completed + row.failed + row.cancelled
            assert row[6:9] == (batch.has_deltas, batch.closed, batch.finished)
            if not row.has_deltas:
                is_over = row.is_closed and row.pending == 0
                assert (row.finished_at is not None) == is_over
            assert set(row.callbacks()) == batch.called

    def teardown(self) -> None:
        """Nothing waits for ever: all that lives comes to its end, but what waits for a person."""
        if not self.known or sys.exc_info()[0] is not None:
            return
        self.close_batches(list(self.model.batches))
        for _ in range(len(self.known) + 5):
            self.fold()
            if not self.has_live_jobs():
                break
            self.bring_nearer_to_the_end()
        self.all_is_as_it_should_be()
        assert self.fetch(ORPHANS) == []
        assert all(job.state in FINAL for job in self.model.jobs.values())
        assert all(batch.finished is not None for batch in self.model.batches.values())

    def bring_nearer_to_the_end(self) -> None:
        self.model.now += timedelta(hours=1)
        self.leases = [self.open_lease()]
        self.maintain(sweeps=False)
        self.claim_some(self.leases[0], 1000)
        if running := self.model.in_state("running"):
            self.settle_as([(id, self.model.jobs[id].token, Outcome.DONE) for id in running])
            return
        waiting = [id for id in self.model.in_state("blocked") if self.waits_for_a_person(id)]
        # The last ones may just have expired.
        assert waiting or not self.has_live_jobs(), "jobs wait for nobody"
        rows = self.call("unblock_v1", ids=waiting)
        assert {row["id"]: row["answer"] for row in rows} == self.model.unblock(waiting)

    def has_live_jobs(self) -> bool:
        return any(self.model.is_live(id) for id in self.model.jobs)

    def waits_for_a_person(self, id: int) -> bool:
        return any(
            self.model.edges[parent, id].on_failure == "wait" and not self.model.is_live(parent)
            for parent in self.model.waits_for(id)
        )

    # How it is done

    def request(
        self,
        draft: Draft,
        steps: int = 0,
        parents: Iterable[int] = (),
        children: Iterable[int] = (),
    ) -> Request:
        """With so many steps before it in its call, and these to choose from."""

        def choose(given: tuple[int, str] | None, among: list[int]) -> tuple[tuple[int, str], ...]:
            return ((among[given[0] % len(among)], given[1]),) if given and among else ()

        return Request(
            draft.unique,
            draft.delay,
            draft.deadline,
            draft.max_attempts,
            tuple((place, policy) for place, policy in draft.steps.items() if place <= steps),
            choose(draft.parent, sorted(parents)),
            choose(draft.child, sorted(children)),
        )

    def enqueue_all(self, requests: list[Request], batch: int | None, workflow: int | None) -> None:
        trial = deepcopy(self.model)
        rows, sqlstate = self.ask_for(columns(requests, batch, workflow, self.model.now))
        if sqlstate is not None:
            with pytest.raises(Refused, match=sqlstate):
                trial.enqueue_all(requests, provisional(requests), batch, workflow)
            return
        ids = [
            other if row["duplicate"] else row["id"]
            for row, other in zip(rows, provisional(requests), strict=True)
        ]
        assert trial.enqueue_all(requests, ids, batch, workflow) == [row["id"] for row in rows]
        self.model = trial
        self.known += [id for id in ids if id > 0]
        if workflow is not None:
            self.members[workflow] += [id for id in ids if id > 0]

    def ask_for(self, jobs: dict[str, Any]) -> tuple[list[asyncpg.Record], str | None]:
        """The new jobs, or the SQLSTATE of the refusal."""
        try:
            return self.call("enqueue_v1", **jobs), None
        except asyncpg.PostgresError as error:
            return [], error.sqlstate

    def new_workflow(self) -> int:
        [row] = self.fetch(NEW_WORKFLOW, self.model.now)
        self.model.workflows[row["id"]], self.members[row["id"]] = self.model.now, []
        return row["id"]

    def open_batch(self, moments: frozenset[str]) -> None:
        callbacks = json.dumps({moment: {"task": "call back"} for moment in moments})
        [row] = self.fetch(NEW_BATCH, callbacks, self.model.now)
        self.model.batches[row["id"]] = ModelBatch(moments, self.model.now)

    def batch_for(self, pick: int) -> int | None:
        """The newest that is open; now and then one that is closed, perhaps."""
        open_ones = [id for id, batch in self.model.batches.items() if not batch.closed]
        return max(open_ones if pick % 8 else self.model.batches, default=None)

    def close_batches(self, ids: list[int]) -> None:
        rows = self.call("close_batch_v1", batches=ids)
        assert {row["id"]: row["answer"] for row in rows} == dict.fromkeys(ids, "closed")
        for id in ids:
            batch = self.model.batches[id]
            batch.closed = True
            batch.has_deltas |= batch.finished is None

    def fold(self) -> None:
        due = {id: batch.fold(self.model.now) for id, batch in self.model.batches.items()}
        self.value("fold_v1")
        rows = {row.id: row for row in self.look().batches}
        for id, moments in due.items():
            for moment in sorted(moments):
                job = rows[id].callbacks()[moment]
                assert job not in self.known
                self.known.append(job)
                self.model.insert(job, Request(), None, None)

    def open_lease(self) -> int:
        self.engine.now = self.model.now
        lease = self.play.run(self.engine.lease(ttl=TTL))
        self.model.leases[lease] = self.model.now + timedelta(seconds=TTL)
        return lease

    def end_session(self, place: int) -> None:
        lease = self.leases[place]
        strangers = self.value("release_jobs_v1", lease=lease, keep=self.known[::2])
        assert strangers == self.model.release(lease, self.known[::2])
        assert self.value("close_lease_v1", lease=lease) == self.model.close_lease(lease)
        self.leases[place] = self.open_lease()

    def heartbeat(self, lease: int, ttl: float) -> None:
        [row] = self.call("heartbeat_v1", lease=lease, ttl=ttl)
        assert row["alive"] == self.model.lives(lease)
        if row["alive"]:
            self.model.leases[lease] = self.model.now + timedelta(seconds=ttl)

    def maintain(self, sweeps: bool) -> None:
        rows = self.call("rescue_v1")
        assert {row["id"]: row["lost"] for row in rows} == self.model.rescue()
        assert self.value("expire_v1") == self.model.expire()
        assert self.value("promote_v1") == self.model.promote()
        if sweeps:
            self.fold()
            self.call("sweep_v1")
            self.model.sweep()

    def claim_some(self, lease: int, limit: int) -> int:
        self.engine.now = self.model.now
        # Many a ready_at is the true time, and the hour of the day would say who comes first.
        self.play.run(self.engine.connection.execute(IN_ORDER))
        claimed = self.play.run(self.engine.claim(lease, limit))
        assert len(claimed) == min(limit, len(self.model.claimable()))
        for row in claimed:
            assert not self.model.waits_for(row["id"])
            self.model.claim(lease, row["id"], row["token"])
            self.attempts.append((row["id"], row["token"]))
        # As if all were suspects: else they would hardly ever be given up for their losses.
        self.play.run(self.engine.mark_started(claimed))
        self.model.mark_started([(row["id"], row["token"]) for row in claimed])
        return len(claimed)

    def settle_as(self, given: list[tuple[int, UUID | None, Outcome]]) -> None:
        asked = [self.settlement(id, outcome) for id, _, outcome in given]
        rows = self.call(
            "settle_v1",
            ids=[id for id, _, _ in given],
            tokens=[token for _, token, _ in given],
            states=[each.state for each in asked],
            reasons=[each.reason for each in asked],
            delays=[each.delay for each in asked],
            failures=[each.failure for each in asked],
        )
        # Of two attempts of one job in one call, the one that owns it comes first.
        together = sorted(zip(given, asked, strict=True), key=lambda each: not self.owns(*each[0]))
        expected = {
            (id, token): self.model.settle(id, token, each) for (id, token, _), each in together
        }
        refused = {key: answer for key, answer in expected.items() if answer != "settled"}
        assert {(row["id"], row["token"]): row["answer"] for row in rows} == refused

    def settlement(self, id: int, outcome: Outcome) -> Settlement:
        job = self.model.jobs.get(id)
        return (
            Settlement.of(outcome, job.failures, job.max_attempts) if job else Settlement("ready")
        )

    def owns(self, id: int, token: UUID | None, _: Outcome) -> bool:
        job = self.model.jobs.get(id)
        return job is not None and job.token == token


def provisional(requests: list[Request]) -> list[int]:
    """Ids of jobs that are not to be."""
    return [-place for place, _ in enumerate(requests, start=1)]


@pytest.fixture
def stage(play: Play) -> Play:
    play.run(play.engine.connection.execute(STAGE))
    return play


def test_no_order_of_events_breaks_keys_batches_or_workflows(stage: Play) -> None:
    run_state_machine_as_test(lambda: Orchestra(stage), settings=GAMES)


FAULTS = [
    # Tokens
    ("finish_jobs_v1", " AND j.token IS NOT DISTINCT FROM g.token", ""),
    ("reschedule_v1", " AND j.token = g.token\n        RETURNING", "\n        RETURNING"),
    # Unique keys
    ("release_unique_keys_v1", "u.keep IS NULL AND", "u.keep < 0 AND"),
    ("claim_unique_keys_v1", "PERFORM cancel_v1(v_older", "PERFORM cancel_v1('{}'"),
    # Batches
    ("finish_jobs_v1", "unnest(v_batches, v_counts)", "unnest(v_batches[2:], v_counts[2:])"),
    ("fold_batches_v1", "b.pending = 0 AND b.closed_at", "b.closed_at"),
    # Workflows
    ("release_dependents_v1", "pending = greatest(0, j.pending - f.count)", "pending = 0"),
    ("refuse_cycle_v1", "IF v_path IS NOT NULL", "IF false"),
    (
        "restore_dependencies_v1",
        "d.satisfied AND d.child <> ALL",
        "NOT d.satisfied AND d.child <> ALL",
    ),
    ("delete_v1", "(d.satisfied OR NOT EXISTS", "(true OR NOT EXISTS"),
]


# A third of them in short; all in the long form.
@pytest.mark.parametrize(("function", "good", "bad"), FAULTS if LONG else FAULTS[::3])
def test_the_same_play_finds_faults_that_are_put_in(
    stage: Play, function: str, good: str, bad: str
) -> None:
    stage.break_function(function, good, bad)
    seek = settings(GAMES, max_examples=40, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises((AssertionError, Refused, asyncpg.PostgresError)):
        run_state_machine_as_test(lambda: Orchestra(stage), settings=seek)
