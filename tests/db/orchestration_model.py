"""Unique keys, batches and workflows as a few lines of Python: what the SQL must agree with."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.db.model import FINAL, Model, ModelJob, Settlement

WAITING = ("scheduled", "ready", "blocked")
LIVE = (*WAITING, "running")


class Refused(Exception):
    """What was asked for is refused, with the error of that SQLSTATE."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@dataclass(frozen=True, slots=True)
class Unique:
    """The rule of a unique key."""

    key: str
    on_conflict: str = "skip"
    hold: str = "live"
    keep: float | None = None
    period: float | None = None

    def part(self, now: datetime) -> int | None:
        return None if self.period is None else int(now.timestamp() // self.period)

    def key_at(self, now: datetime) -> str:
        return self.key if self.period is None else f"{self.key}:{self.part(now)}"

    def until(self, now: datetime) -> datetime | None:
        if (part := self.part(now)) is None or self.period is None:
            return None
        return datetime.fromtimestamp((part + 1) * self.period, UTC)


@dataclass(frozen=True, slots=True)
class Request:
    """A job to enqueue. Parents are places in the same call (from 1 on) or ids, children ids."""

    unique: Unique | None = None
    delay: float = 0.0
    deadline: float | None = None
    max_attempts: int = 5
    steps: tuple[tuple[int, str], ...] = ()
    parents: tuple[tuple[int, str], ...] = ()
    children: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True)
class LinkedJob(ModelJob):
    """A job and what it belongs to."""

    deadline: datetime | None = None
    key: str | None = None
    batch: int | None = None
    workflow: int | None = None


@dataclass(slots=True)
class Edge:
    on_failure: str
    satisfied: bool = False


@dataclass(slots=True)
class Claim:
    """Who has a unique key, and until when; while its job lives there is no telling."""

    job: int
    keep: float | None = None
    until: datetime | None = None
    expires_at: datetime | None = None


@dataclass(slots=True)
class ModelBatch:
    moments: frozenset[str]
    # When it was opened, or folded last.
    touched: datetime
    counts: Counter[str] = field(default_factory=Counter)
    total: int = 0
    closed: bool = False
    finished: datetime | None = None
    called: set[str] = field(default_factory=set)
    # Since it was folded: whether there is something to fold, one that failed, one that goes on.
    has_deltas: bool = False
    has_failed: bool = False
    goes_on: bool = False

    def pending(self) -> int:
        return self.total - sum(self.counts.values())

    def is_forgotten(self, since: datetime) -> bool:
        """Never closed, and not used any more."""
        return not (self.closed or self.has_deltas or self.pending()) and self.touched < since

    def row(self) -> tuple[int, ...]:
        return (self.total, self.pending(), *(self.counts[state] for state in FINAL))

    def join(self, count: int) -> None:
        self.total += count
        self.has_deltas, self.goes_on = True, self.goes_on or count > 0

    def count(self, state: str) -> None:
        self.counts[state] += 1
        self.has_deltas, self.has_failed = True, self.has_failed or state == "failed"

    def uncount(self, state: str) -> None:
        self.counts[state] -= 1
        self.has_deltas = self.goes_on = True

    def fold(self, now: datetime) -> set[str]:
        """The moments whose callbacks are enqueued."""
        if not self.has_deltas:
            return set()
        due = {"failure"} if self.counts["failed"] or self.has_failed else set()
        self.touched = now
        self.finished = None if self.goes_on else self.finished
        self.has_deltas = self.has_failed = self.goes_on = False
        if self.closed and not self.pending() and self.finished is None:
            self.finished = now
            due |= {"end", "success"} if self.counts["completed"] == self.total else {"end"}
        due = (due & self.moments) - self.called
        self.called |= due
        return due


@dataclass(slots=True)
class OrchestrationModel(Model):
    """The queue with keys, batches and edges between jobs."""

    jobs: dict[int, LinkedJob] = field(default_factory=dict)  # type: ignore[assignment]
    keys: dict[str, Claim] = field(default_factory=dict)
    batches: dict[int, ModelBatch] = field(default_factory=dict)
    workflows: dict[int, datetime] = field(default_factory=dict)
    edges: dict[tuple[int, int], Edge] = field(default_factory=dict)

    def is_live(self, id: int) -> bool:
        return id in self.jobs and self.jobs[id].state in LIVE

    def waits_for(self, id: int) -> list[int]:
        """The parents whose end has not been counted."""
        return [p for (p, child), edge in self.edges.items() if child == id and not edge.satisfied]

    def claimable(self) -> list[int]:
        now = self.now
        ready = [(id, self.jobs[id].deadline) for id in self.in_state("ready")]
        return [id for id, deadline in ready if deadline is None or deadline > now]

    def wake(self, id: int, *, at_once: bool = False) -> None:
        """Nothing is in its way any more."""
        job = self.jobs[id]
        job.state = "scheduled" if job.run_at > self.now and not at_once else "ready"

    # The end of jobs

    def end(self, states: dict[int, str]) -> None:
        """The one place where jobs end: their batches, keys and children hear of it."""
        for id, state in states.items():
            job = self.jobs[id]
            job.leave(state)
            if job.batch in self.batches:
                self.batches[job.batch].count(state)
            if job.key is not None:
                self.let_go(id, job.key)
        self.tell_children(states)

    def let_go(self, id: int, key: str) -> None:
        claim = self.keys.get(key)
        if claim is None or claim.job != id:
            return
        kept = None if claim.keep is None else self.now + timedelta(seconds=claim.keep)
        ends = [each for each in (claim.until, kept) if each is not None]
        if kept is None and (claim.until is None or claim.until <= self.now):
            del self.keys[key]
        else:
            claim.expires_at = max(ends)

    def tell_children(self, states: dict[int, str]) -> None:
        doomed = set()
        for (parent, child), edge in self.edges.items():
            if parent not in states or edge.satisfied:
                continue
            if states[parent] == "completed" or edge.on_failure == "continue":
                edge.satisfied = True
                if self.jobs[child].state == "blocked" and not self.waits_for(child):
                    self.wake(child)
            elif edge.on_failure == "cancel" and self.jobs[child].state == "blocked":
                doomed.add(child)
        if doomed:
            self.end(dict.fromkeys(doomed, "cancelled"))

    # What jobs are asked to become

    def settle(self, id: int, token: UUID | None, asked: Settlement) -> str:
        job = self.jobs.get(id)
        if job is None:
            return "refused"
        owns = token is not None and token == job.token
        answer = Model.settle(self, id, token, asked)
        if owns and asked.state in FINAL:
            self.end({id: asked.state})
        return answer

    def rescue(self) -> dict[int, bool]:
        lost = Model.rescue(self)
        over = [id for id in lost if lost[id]]
        for id in over:
            self.end({id: "failed"})
        return lost

    def expire(self) -> int:
        late = [
            id
            for id, job in self.jobs.items()
            if self.is_live(id) and job.state != "running" and job.deadline is not None
            if job.deadline <= self.now
        ]
        self.end(dict.fromkeys(late, "cancelled"))
        return len(late)

    def cancel_all(self, ids: Collection[int]) -> dict[int, str]:
        self.end({id: "cancelled" for id in ids if self.is_live(id)})
        return {id: self.jobs[id].state if id in self.jobs else "missing" for id in ids}

    def unblock(self, ids: Collection[int]) -> dict[int, str]:
        for id in ids:
            if id in self.jobs and self.jobs[id].state == "blocked":
                for parent in self.waits_for(id):
                    self.edges[parent, id].satisfied = True
                self.wake(id, at_once=True)
        return {id: self.jobs[id].state if id in self.jobs else "missing" for id in ids}

    def delete(self, ids: Collection[int]) -> dict[int, str]:
        gone = [id for id in ids if id in self.jobs and self.jobs[id].state != "running"]
        self.end({id: "cancelled" for id in gone if self.is_live(id)})
        # Who waits for a person goes on waiting for one.
        kept = {
            (parent, child): edge
            for (parent, child), edge in self.edges.items()
            if child not in gone
            and (parent not in gone or (not edge.satisfied and self.is_live(child)))
        }
        self.edges = kept
        self.keys = {key: claim for key, claim in self.keys.items() if claim.job not in gone}
        answers = {
            id: "deleted" if id in gone else self.jobs[id].state if id in self.jobs else "missing"
            for id in ids
        }
        for id in gone:
            del self.jobs[id]
        return answers

    def retry_all(self, ids: Collection[int]) -> dict[int, str]:
        for id in ids:
            if id in self.jobs and self.jobs[id].state == "scheduled":
                self.jobs[id].state, self.jobs[id].run_at = "ready", self.now
        final = [id for id in ids if id in self.jobs and self.jobs[id].state in FINAL]
        held = self.hold_again(final)
        self.bring_back([id for id in final if id not in held])
        states = {id: self.jobs[id].state if id in self.jobs else "missing" for id in ids}
        return {id: "held" if id in held else state for id, state in states.items()}

    def hold_again(self, ids: Iterable[int]) -> set[int]:
        """Those whose keys belong to others. Of several with one key who has it, or the first."""
        wanted: dict[str, list[int]] = {}
        for id in sorted(ids):
            if (key := self.jobs[id].key) is not None:
                wanted.setdefault(key, []).append(id)
        held = set()
        for key, several in wanted.items():
            claim = self.keys.get(key)
            taker = claim.job if claim is not None and claim.job in several else several[0]
            held |= set(several) - {taker}
            if claim is None:
                self.keys[key] = Claim(taker)
            elif claim.job == taker or (claim.expires_at and claim.expires_at <= self.now):
                claim.job, claim.expires_at = taker, None
            else:
                held.add(taker)
        return held

    def bring_back(self, ids: list[int]) -> None:
        for id in ids:
            job = self.jobs[id]
            if job.batch in self.batches:
                self.batches[job.batch].uncount(job.state)
            job.failures = job.losses = 0
            job.state, job.run_at = "ready", self.now
            job.deadline = job.deadline if job.deadline and job.deadline > self.now else None
        for (parent, child), edge in self.edges.items():
            if child in ids:
                edge.satisfied = not self.is_live(parent)
            elif parent in ids and self.jobs[child].state == "blocked":
                edge.satisfied = False
        for id in ids:
            if self.waits_for(id):
                self.jobs[id].state = "blocked"

    def redrive(self, ids: Collection[int], spacing: float | None) -> dict[int, str]:
        dead = [id for id in ids if id in self.jobs and self.jobs[id].state == "failed"]
        back = self.retry_all(dead)
        for place, id in enumerate(dead):
            job = self.jobs[id]
            if spacing is not None and back[id] == "ready":
                job.state, job.run_at = "scheduled", self.now + timedelta(seconds=place * spacing)
                late = job.deadline is not None and job.deadline <= job.run_at
                job.deadline = None if late else job.deadline
        held = [id for id in dead if back[id] == "held"]
        states = {id: self.jobs[id].state if id in self.jobs else "missing" for id in ids}
        return {id: "held" if id in held else state for id, state in states.items()}

    # New jobs

    def enqueue_all(
        self, requests: list[Request], ids: list[int], batch: int | None, workflow: int | None
    ) -> list[int]:
        """The job that each request stands for; a new one has the id that is given for it."""
        jobs, replaced = self.be_unique(requests, ids)
        new = [place for place, id in enumerate(ids) if jobs[place] == id]
        if workflow is not None and workflow not in self.workflows:
            raise Refused("PS016")
        if workflow is not None and any(r.steps or r.parents or r.children for r in requests):
            self.depend([(requests[place], ids[place]) for place in new], jobs, workflow)
        if batch is not None:
            if self.batches[batch].closed:
                raise Refused("PS012")
            self.batches[batch].join(len(new))
        for place in new:
            self.insert(ids[place], requests[place], batch, workflow)
        for place in new:
            self.tell_about_parents(ids[place])
        for place in replaced:
            self.replace(jobs[place], requests[place])
        return jobs

    def insert(self, id: int, request: Request, batch: int | None, workflow: int | None) -> None:
        run_at = self.now + timedelta(seconds=request.delay)
        job = self.jobs[id] = LinkedJob(request.max_attempts, 3, run_at, "scheduled")
        job.batch, job.workflow = batch, workflow
        job.key = request.unique and request.unique.key_at(self.now)
        if request.deadline is not None:
            job.deadline = self.now + timedelta(seconds=request.deadline)
        self.wake(id)
        if self.waits_for(id):
            job.state = "blocked"

    def tell_about_parents(self, id: int) -> None:
        """Nobody else will: they ended before it came."""
        doomed = any(
            self.edges[parent, id].on_failure == "cancel" and not self.is_live(parent)
            for parent in self.waits_for(id)
        )
        if doomed and self.is_live(id):
            self.end({id: "cancelled"})

    def replace(self, id: int, request: Request) -> None:
        job = self.jobs[id]
        if job.state not in WAITING:
            return
        job.run_at = self.now + timedelta(seconds=request.delay)
        job.failures = job.losses = 0
        job.max_attempts = request.max_attempts
        late = request.deadline
        job.deadline = None if late is None else self.now + timedelta(seconds=late)
        if job.state != "blocked":
            self.wake(id)

    def be_unique(self, requests: list[Request], ids: list[int]) -> tuple[list[int], list[int]]:
        """The job of each request, and the places of those that replace what waits."""
        same: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            if request.unique is not None:
                same.setdefault(request.unique.key_at(self.now), []).append(place)
        jobs, replaced, superseded = list(ids), [], []
        if any(
            len(places) > 1 and any(r.unique and r.unique.on_conflict == "raise" for r in given)
            for places in same.values()
            if (given := [requests[place] for place in places])
        ):
            raise Refused("PS010")
        for key in sorted(same):
            place = chosen(requests, same[key])
            rule = requests[place].unique
            assert rule is not None
            before = self.keys.get(key)
            older, overtaken = before and before.job, self.is_overtaken(before, rule)
            job, is_replaced = self.hold(key, rule, ids[place], overtaken)
            if rule.on_conflict == "supersede" and older is not None and not overtaken:
                superseded.append(older)
            replaced += [place] if is_replaced else []
            for each in same[key]:
                jobs[each] = job
        self.cancel_all(superseded)
        return jobs, replaced

    def is_overtaken(self, claim: Claim | None, rule: Unique) -> bool:
        """Its time is over, or its job has started and only one that waits is in the way."""
        if claim is None:
            return False
        if claim.expires_at is not None:
            return claim.expires_at <= self.now
        runs = self.jobs[claim.job].state == "running"
        return runs and (rule.hold == "waiting" or rule.on_conflict == "replace")

    def hold(self, key: str, rule: Unique, id: int, overtaken: bool) -> tuple[int, bool]:
        """Who has the key now, and whether that one is to be replaced."""
        claim = self.keys.get(key)
        if claim is None or overtaken or rule.on_conflict == "supersede":
            self.keys[key] = Claim(id, rule.keep, rule.until(self.now))
            return id, False
        if rule.on_conflict == "raise":
            raise Refused("PS010")
        return claim.job, rule.on_conflict == "replace" and claim.expires_at is None

    def depend(self, new: list[tuple[Request, int]], jobs: list[int], workflow: int) -> None:
        """Edges to new jobs, and from them to jobs that wait."""
        fresh = {id for _, id in new}
        given = [
            (parent, id, policy)
            for request, id in new
            for parent, policy in (
                *((jobs[place - 1], policy) for place, policy in request.steps),
                *request.parents,
            )
        ]
        if any(
            parent not in fresh and not self.belongs(parent, workflow) for parent, _, _ in given
        ):
            raise Refused("PS013")
        after = [(id, child, policy) for request, id in new for child, policy in request.children]
        if any(not self.may_wait(child, workflow) for _, child, _ in after):
            raise Refused("PS014")
        added = {}
        # Of two policies for one edge the most careful, which comes first in the alphabet.
        for parent, child, policy in sorted(given + after, key=lambda each: each[2], reverse=True):
            added[parent, child] = self.edge(parent, policy, fresh)
        self.edges |= added
        if any(self.leads_to(child, parent) for parent, child in added):
            raise Refused("PS015")
        for _, child, _ in after:
            self.jobs[child].state = "blocked"

    def may_wait(self, id: int, workflow: int) -> bool:
        """Whether it can still be made to wait for something."""
        return self.belongs(id, workflow) and self.jobs[id].state in WAITING

    def belongs(self, id: int, workflow: int) -> bool:
        return id in self.jobs and self.jobs[id].workflow == workflow

    def edge(self, parent: int, policy: str, fresh: set[int]) -> Edge:
        """That of a parent that has ended counts at once, if it went well or is to go on."""
        if parent in fresh or self.is_live(parent):
            return Edge(policy)
        return Edge(policy, self.jobs[parent].state == "completed" or policy == "continue")

    def leads_to(self, start: int, goal: int) -> bool:
        seen, ahead = set(), [start]
        while ahead:
            id = ahead.pop()
            if id == goal:
                return True
            if id not in seen:
                seen.add(id)
                ahead += [child for parent, child in self.edges if parent == id]
        return False

    # The maintenance

    def sweep(self) -> None:
        self.keys = {
            key: claim
            for key, claim in self.keys.items()
            if claim.expires_at is None or claim.expires_at > self.now
        }
        long_ago = self.now - timedelta(days=38)
        self.batches = {
            id: batch
            for id, batch in self.batches.items()
            if (batch.finished or self.now) >= long_ago and not batch.is_forgotten(long_ago)
        }
        used = {job.workflow for job in self.jobs.values()}
        self.workflows = {
            id: created_at
            for id, created_at in self.workflows.items()
            if id in used or created_at >= long_ago
        }


def chosen(requests: list[Request], places: list[int]) -> int:
    """Which of those that share a key is for it: the last that replaces, or else the first."""
    newer = [
        place
        for place in places
        if (rule := requests[place].unique) and rule.on_conflict in ("replace", "supersede")
    ]
    return newer[-1] if newer else places[0]
