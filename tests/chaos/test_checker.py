"""The checker on hand-made evidence: it finds what is wrong, and nothing in what is right."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.evidence import Entry, Evidence

START = datetime(2030, 1, 1, tzinfo=UTC)
LEASE_LENGTH = timedelta(seconds=10)


class Story(Evidence):
    """Evidence written step by step, one second apart. Job 1, unless a step names another."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[int, dict[str, Any]] = {}

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=len(self.journal))

    def _write(self, source: str, was: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
        self.journal.append(Entry(len(self.journal) + 1, self.now, source, was, now))

    def _change(self, job: int, **changes: Any) -> None:
        was = self._rows[job]
        self._rows[job] = was | changes
        self._write("job", was, self._rows[job])

    def _tell(self, operation: str, outcome: str, **fields: Any) -> None:
        line = {"process": "worker", "operation": operation, "outcome": outcome}
        self.log.append(line | fields)

    def _end(self, job: int, **changes: Any) -> None:
        was = self._rows.pop(job)
        now = was | changes
        now.pop("token", None)
        self._write("job", was, None)
        self._write("history", None, now)
        self.rows.append(now)

    def lease(self, lease: int) -> "Story":
        self._write("lease", None, {"id": lease, "expires_at": str(self.now + LEASE_LENGTH)})
        return self

    def enqueue(
        self,
        job: int = 1,
        *,
        stored: bool = True,
        subject: str | None = None,
        unique_key: str | None = None,
        tick: datetime | None = None,
        asked_by: str | None = None,
    ) -> "Story":
        self._tell("enqueue", "ok", job=job, key=subject, tenant=asked_by)
        if stored:
            counts = {"attempt": 0, "failures": 0, "losses": 0, "max_attempts": 5, "max_losses": 3}
            fences = {"token": None, "last_token": None, "lease": None}
            fences |= {"begun_token": None, "suspect": False}
            names = {
                "id": job,
                "task": "note",
                "subject": subject,
                "state": "ready",
                "reason": None,
                "tenant": "acme",
                "unique_key": unique_key,
                "of": [None, None] if tick is None else ["daily", str(tick)],
            }
            self._rows[job] = names | counts | fences
            self._write("job", None, self._rows[job])
        return self

    def claim(self, token: str, lease: int = 1, job: int = 1, rise: int = 1) -> "Story":
        attempt = self._rows[job]["attempt"] + rise
        self._change(job, state="running", token=token, lease=lease, attempt=attempt)
        return self

    def run(self, token: str, job: int = 1) -> "Story":
        self.effects.append({"what": "start", "process": "worker", "job": job, "token": token})
        return self

    def begin(self, token: str, job: int = 1) -> "Story":
        self._change(job, begun_token=token)
        return self

    def lose(self, job: int = 1, losses: int = 0, kind: str = "WorkerLost") -> "Story":
        lost = self._rows[job]["losses"] + losses
        error = {"type": kind, "attempt": self._rows[job]["attempt"]}
        ready = {"state": "ready", "token": None, "lease": None, "suspect": True}
        self._change(job, **ready, losses=lost, last_error=error)
        return self

    def give_up(self, job: int = 1) -> "Story":
        row = self._rows[job]
        error = {"type": "WorkerLost", "attempt": row["attempt"]}
        losses = row["losses"] + 1
        self._end(job, state="failed", reason="worker_lost", losses=losses, last_error=error)
        return self

    def release(self, job: int = 1) -> "Story":
        self._change(job, state="ready", token=None, lease=None)
        return self

    def retry(self, token: str, job: int = 1) -> "Story":
        failures = self._rows[job]["failures"] + 1
        self._change(job, state="ready", token=None, last_token=token, failures=failures)
        self._tell("settle", "ok", job=job, token=token, state="scheduled")
        return self

    def complete(self, token: str, job: int = 1, *, told: bool = True) -> "Story":
        self._end(job, state="completed", last_token=token)
        return self.accept(token, job) if told else self

    def accept(self, token: str, job: int = 1) -> "Story":
        """A worker is told that its settle was taken."""
        self._tell("settle", "ok", job=job, token=token, state="completed")
        return self

    def ends(self, token: str, job: int = 1) -> "Story":
        """It is claimed, runs and is completed."""
        return self.claim(token, job=job).run(token, job).complete(token, job)

    def change_hands(self, tenant: str, job: int = 1) -> "Story":
        self._change(job, tenant=tenant)
        return self

    def fire(self, tick: datetime, job: int | None) -> "Story":
        self._write("fire", None, {"schedule": "daily", "tick": str(tick), "job": job})
        return self

    def limit(self, key: str, slots: int | None) -> "Story":
        self._write("limit", None, {"key": key, "slots": slots})
        return self

    def grant(self, slots: int, lease: int = 1, key: str = "queue:default") -> "Story":
        self._write("grant", None, {"key": key, "lease": lease, "slots": slots})
        return self

    def wait(self, steps: int) -> "Story":
        for _ in range(steps):
            self._write("lease", None, {"id": 99, "expires_at": str(self.now)})
        return self


def told() -> Story:
    return Story().lease(1).enqueue()


FINE = {
    "a job that runs once": told().claim("a").run("a").complete("a"),
    "a retry": told().claim("a").run("a").retry("a").claim("b").run("b").complete("b"),
    "a rescue": (
        told().claim("a").run("a").wait(10).lose().claim("b").begin("b").run("b").complete("b")
    ),
    "the end of a job that kills": (
        told().claim("a").run("a").wait(10).lose()
        .claim("b").begin("b").run("b").wait(10).give_up()
    ),
    "an answer that was lost": told().claim("a").run("a").complete("a", told=False),
    "a claim nobody heard": told().claim("a").release().claim("b").run("b").complete("b"),
    "a unique key that is free again": (
        Story().lease(1).enqueue(unique_key="k").ends("a").enqueue(2, unique_key="k").ends("b", 2)
    ),
    "a tick": told().ends("a").fire(START, None).enqueue(2, tick=START).fire(START, 2).ends("b", 2),
    "a limit of which the dead have some": (
        told().ends("a").limit("queue:*", 2).grant(2).wait(10).lease(2).grant(2, lease=2)
    ),
    "a limit that was just lowered": (
        told().ends("a").limit("queue:*", 2).grant(1).limit("queue:default", 1).grant(2)
    ),
    "a limit that is none any more": (
        told().ends("a").limit("queue:*", 2).limit("queue:default", None).grant(9)
    ),
    "an outcome that could not be written": (
        told().claim("a").run("a").wait(10).lose(losses=1, kind="OutcomeUnwritten")
        .claim("b").begin("b").run("b").complete("b")
    ),
    "a repeat": told().claim("a").run("a").complete("a").accept("a"),
}  # fmt: skip
WRONG = {
    "I1 job 1 was acknowledged and is lost": Story().lease(1).enqueue(stored=False),
    "reached 0 final states": told().claim("a").run("a"),
    "reached 2 final states": told().claim("a").run("a").complete("a").enqueue().complete("a"),
    "was enqueued once and is stored as [1, 2]": (
        Story().lease(1).enqueue(subject="order").claim("a").run("a").complete("a")
        .enqueue(2, subject="order").claim("b", job=2).run("b", job=2).complete("b", job=2)
    ),
    "accepted, but that attempt was lost": (
        told().claim("a").run("a").wait(10).lose().claim("b").begin("b").run("b").accept("a").complete("b")
    ),
    "accepted, but that attempt was never granted": (
        told().claim("a").run("a").complete("a").accept("forged")
    ),
    "settled for good with 2 tokens": (
        told().claim("a").run("a").wait(10).lose().claim("b").begin("b").run("b").complete("b").accept("a")
    ),
    "was completed with token a, but the last one granted was b": (
        told().claim("a").run("a").wait(10).lose()
        .claim("b").begin("b").run("b").complete("a", told=False)
    ),
    "I4 jobs 1 and 2 were live with the unique key 'k'": (
        Story().lease(1).enqueue(unique_key="k").enqueue(2, unique_key="k").ends("a").ends("b", 2)
    ),
    "I5 the tick 2030-01-01 00:00:00+00:00 of daily has jobs [1, 2]": (
        Story().lease(1).enqueue(tick=START).enqueue(2, tick=START).ends("a").ends("b", 2)
    ),
    "of daily has jobs [1, 3]": told().ends("a").fire(START, 1).fire(START, 3),
    "I6 of queue:default, 2 slots, leases were granted {1: 2, 2: 1}": (
        told().ends("a").limit("queue:*", 2).grant(2).lease(2).grant(1, lease=2)
    ),
    "I8 job 1 of 'acme' became 'evil''s": told().change_hands("evil").ends("a"),
    "I8 'evil' was given job 1, which is 'acme''s": (
        Story().lease(1).enqueue(asked_by="evil").ends("a")
    ),
    "lost attempt 1 and paid 2 times": (
        told().claim("a").begin("a").run("a").wait(10).lose(losses=2)
        .claim("b").begin("b").run("b").complete("b")
    ),
    "attempt 0 was followed by 2": told().claim("a", rise=2).run("a").complete("a"),
    "attempt 1 was followed by 1": (
        told().claim("a").run("a").retry("a").claim("b", rise=0).run("b").complete("b")
    ),
    "token a was granted twice": (
        told().claim("a").release().claim("a").run("a").complete("a")
    ),
    "losses is 4, over its limit of 3": (
        told().claim("a").begin("a").run("a").wait(10).lose(losses=4)
        .claim("b").begin("b").run("b").complete("b")
    ),
    "lost attempt 1, which had not begun, and paid": (
        told().claim("a").wait(10).lose(losses=1).claim("b").begin("b").run("b").complete("b")
    ),
    "lost attempt 1, which had begun, for nothing": (
        told().claim("a").begin("a").run("a").wait(10).lose()
        .claim("b").begin("b").run("b").complete("b")
    ),
    "attempt 2 of a suspect ran without its mark": (
        told().claim("a").wait(10).lose().claim("b").run("b").complete("b")
    ),
    "begun_token b is not the attempt's": told().claim("a").begin("b").run("a").complete("a"),
    "was given up for its losses and has never begun": (
        told().claim("a").begin("a").wait(10).give_up()
    ),
    "was taken from lease 1, which had not expired": (
        told().claim("a").run("a").lose().claim("b").begin("b").run("b").complete("b")
    ),
    "was released while it ran": (
        told().claim("a").run("a").release().claim("b").run("b").complete("b")
    ),
    "ran 2 times with token a": told().claim("a").run("a").run("a").complete("a"),
    "ran in worker without a claim": told().run("x").claim("a").run("a").complete("a"),
    "completed by an attempt that never ran": told().claim("a").complete("a"),
}  # fmt: skip


@pytest.mark.parametrize("story", FINE.values(), ids=FINE.keys())
def test_the_checker_finds_nothing_wrong_in(story: Story) -> None:
    assert check(story).violations == []


@pytest.mark.parametrize(("found", "story"), WRONG.items(), ids=WRONG.keys())
def test_the_checker_finds(found: str, story: Story) -> None:
    violations = check(story).violations
    assert any(found in violation for violation in violations), violations


def test_checker_explains_an_unclaimed_run_by_a_crash() -> None:
    story = told().run("taken back").claim("a").run("a").complete("a")
    story.crashes = 1
    verdict = check(story)
    assert verdict.violations == []
    assert verdict.numbers["runs whose claim a crash took back"] == 1


def test_checker_reports_work_done_too_late() -> None:
    story = told().claim("a").run("a").wait(30).complete("a")
    story.calm_at, story.patience = START, 20
    [violation] = check(story).violations
    assert violation.startswith("I7 job 1 was done 3")


@pytest.mark.parametrize("rows", [0, 2])
def test_checker_reports_missing_and_doubled_effects(rows: int) -> None:
    story = told().claim("a").run("a").complete("a")
    story.rows[0]["task"] = "transfer"
    story.effect_rows = Counter({1: rows})
    assert check(story).violations == [f"I3 job 1 has {rows} effects in the database, not 1"]


def test_a_refused_enqueue_that_is_stored_all_the_same_is_found() -> None:
    story = Story().lease(1).enqueue(subject="order").claim("a").run("a").complete("a")
    story.log[0]["outcome"] = "fail"
    assert check(story).violations == ["I1 order was refused and is stored all the same"]
