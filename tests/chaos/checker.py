"""Decides offline whether a run kept its promises.

I1  every acknowledged enqueue reaches exactly one final state
I2  no write is accepted with a superseded token
I3  failures and losses stay within their limits, attempts only rise, only what has begun pays a
    loss, and a job runs again only where a retry, an expired lease or a claim that a crash took
    back explains it
I7  everything is done soon after the faults are over

The promises about several jobs at once, I4, I5, I6 and I8, are in rules.py.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.chaos import rules
from tests.chaos.evidence import Evidence
from tests.chaos.life import Grant, Life, fold

FINAL = ("completed", "failed", "cancelled")


@dataclass(slots=True)
class Verdict:
    """What was wrong, and some numbers about what was not."""

    violations: list[str] = field(default_factory=list)
    numbers: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self.numbers.items()))
        return "\n  ".join([counts, *self.violations])


class Checker:
    """Looks at the evidence from several sides; each of them yields what it finds wrong."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._lives, self._leases = fold(evidence.journal)
        self._runs: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for effect in evidence.effects:
            if effect["what"] == "start":
                self._runs[effect["job"]].append(effect)
        self._numbers: Counter[str] = Counter()

    def verdict(self) -> Verdict:
        sides: list[Callable[[], Iterator[str]]] = [
            self._enqueues,
            self._ends,
            self._settles,
            self._counts,
            self._losses,
            self._given_up,
            self._reruns,
            self._effects_in_the_database,
            self._calm,
            partial(rules.unique_keys, self._evidence),
            partial(rules.ticks, self._evidence),
            partial(rules.granted_slots, self._evidence, self._leases),
            partial(rules.tenants, self._evidence),
        ]
        violations = [violation for side in sides for violation in side()]
        self._count()
        return Verdict(violations, self._numbers)

    # I1

    def _enqueues(self) -> Iterator[str]:
        jobs: dict[str, set[int]] = defaultdict(set)
        for life in self._lives.values():
            jobs[life.subject or f"job {life.job}"].add(life.job)
        for key, stored in jobs.items():
            if len(stored) > 1:
                yield f"I1 {key} was enqueued once and is stored as {sorted(stored)}"
        for ack in self._evidence.lines("enqueue", "ok"):
            if ack["job"] not in self._lives:
                yield f"I1 job {ack['job']} was acknowledged and is lost"
        doubtful = {
            line["key"] for line in self._evidence.log
            if line["operation"] == "enqueue" and line["outcome"] in ("ok", "info")
        }  # fmt: skip
        for refusal in self._evidence.lines("enqueue", "fail"):
            if refusal["key"] in jobs and refusal["key"] not in doubtful:
                yield f"I1 {refusal['key']} was refused and is stored all the same"

    def _ends(self) -> Iterator[str]:
        rows: dict[int, list[str]] = defaultdict(list)
        for row in self._evidence.rows:
            rows[row["id"]].append(row["state"])
        for life in self._lives.values():
            states = rows[life.job]
            if len(life.finals) != 1 or len(states) != 1 or states[0] not in FINAL:
                yield (
                    f"I1 job {life.job} ({life.task}) reached {len(life.finals)} final states "
                    f"and is stored as {states or 'nothing'}"
                )

    # I2

    def _settles(self) -> Iterator[str]:
        accepted: dict[int, set[str]] = defaultdict(set)
        for line in self._evidence.lines("settle", "ok"):
            life = self._lives.get(line["job"])
            grant = life.grant_of(line["token"]) if life else None
            if grant is None or grant.end != "settled":
                yield (
                    f"I2 job {line['job']}: {line['process']} was told that its settle with token "
                    f"{line['token']} was accepted, but that attempt was "
                    f"{grant.end if grant else 'never granted'}"
                )
            if line["state"] in FINAL:
                accepted[line["job"]].add(line["token"])
        for job, tokens in accepted.items():
            if len(tokens) > 1:
                yield f"I2 job {job} was settled for good with {len(tokens)} tokens"
        for life in self._lives.values():
            yield from self._last_settle(life, accepted[life.job])

    def _last_settle(self, life: Life, accepted: set[str]) -> Iterator[str]:
        if not life.finals or life.finals[-1].now is None:
            return
        final = life.finals[-1].now
        last = life.grants[-1] if life.grants else None
        if final["state"] == "completed" and (not last or final["last_token"] != last.token):
            yield (
                f"I2 job {life.job} was completed with token {final['last_token']}, but the last "
                f"one granted was {last.token if last else 'none'}"
            )
        for token in accepted - {final["last_token"]}:
            yield (
                f"I2 job {life.job}: a final settle with token {token} was accepted, but the job "
                f"ended with {final['last_token']}"
            )

    # I3

    def _counts(self) -> Iterator[str]:
        for life in self._lives.values():
            for fault in life.faults:
                yield f"I3 job {life.job} {fault}"

    def _losses(self) -> Iterator[str]:
        for life in self._lives.values():
            for grant in life.grants:
                if grant.end == "lost" and not self._was_expired(grant):
                    yield (
                        f"I3 job {life.job}, attempt {grant.attempt} was taken from lease "
                        f"{grant.lease}, which had not expired"
                    )

    def _given_up(self) -> Iterator[str]:
        for row in self._evidence.rows:
            is_given_up = row["state"] == "failed" and row["reason"] == "worker_lost"
            if is_given_up and not self._runs[row["id"]]:
                yield f"I3 job {row['id']} was given up for its losses and has never begun"

    def _was_expired(self, grant: Grant) -> bool:
        assert grant.ended_at is not None
        return self._leases.was_over(grant.lease, grant.end_seq, grant.ended_at)

    def _reruns(self) -> Iterator[str]:
        for job, runs in self._runs.items():
            times = Counter(run["token"] for run in runs)
            for token, count in times.items():
                if count > 1:
                    yield f"I3 job {job} ran {count} times with token {token}"
            for number, run in enumerate(runs, 1):
                yield from self._explain(job, run, is_last=number == len(runs))

    def _explain(self, job: int, run: dict[str, Any], is_last: bool) -> Iterator[str]:
        """Why a run was followed by another, and whether it had the right to begin at all."""
        life = self._lives.get(job)
        grant = life.grant_of(run["token"]) if life else None
        if grant is None:
            self._numbers["runs whose claim a crash took back"] += 1
            if not self._evidence.crashes:
                yield f"I3 job {job} ran in {run['process']} without a claim"
        elif grant.suspect and not grant.begun:
            yield f"I3 job {job}, attempt {grant.attempt} of a suspect ran without its mark"
        elif grant.end == "released":
            yield f"I3 job {job}, attempt {grant.attempt} was released while it ran"
        elif grant.end == "lost":
            self._numbers["runs whose worker was lost"] += 1
        elif grant.end == "settled" and not is_last:
            self._numbers["runs that were settled and followed by another"] += 1
        elif not is_last:
            yield f"I3 job {job} ran again after attempt {grant.attempt}, which was {grant.end}"

    def _effects_in_the_database(self) -> Iterator[str]:
        for row in self._evidence.rows:
            ran = {run["token"] for run in self._runs[row["id"]]}
            if row["state"] == "completed" and str(row["last_token"]) not in ran:
                yield f"I3 job {row['id']} was completed by an attempt that never ran"
            expected = int(row["task"] in ("transfer", "shared") and row["state"] == "completed")
            if (found := self._evidence.effect_rows[row["id"]]) != expected:
                yield f"I3 job {row['id']} has {found} effects in the database, not {expected}"

    # I7

    def _calm(self) -> Iterator[str]:
        if self._evidence.calm_at is None:
            return
        for life in self._lives.values():
            for final in life.finals:
                late = (final.at - self._evidence.calm_at).total_seconds()
                if late > self._evidence.patience:
                    yield f"I7 job {life.job} was done {late:.1f} s after the last fault"

    def _count(self) -> None:
        grants = [grant for life in self._lives.values() for grant in life.grants]
        self._numbers["jobs"] = len(self._lives)
        self._numbers["claims"] = len(grants)
        self._numbers["runs"] = sum(len(runs) for runs in self._runs.values())
        self._numbers["jobs that ran more than once"] = sum(len(r) > 1 for r in self._runs.values())
        self._numbers["claims released unheard"] = sum(grant.end == "released" for grant in grants)
        for row in self._evidence.rows:
            reason = f" as {row['reason']}" if row["state"] == "failed" else ""
            self._numbers[f"jobs {row['state']}{reason}"] += 1


def check(evidence: Evidence) -> Verdict:
    """Look at the evidence from all sides."""
    return Checker(evidence).verdict()
