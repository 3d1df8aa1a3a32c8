"""A job's life and a lease's, folded from the journal in the order of its sequence."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from tests.chaos.evidence import Entry

# How an attempt ended, in the database: by its own settle, by a rescue, put back uncounted because
# nobody ran it, or because somebody else ended the job.
End = Literal["settled", "lost", "released", "ended"]
# An outcome that nobody could write is one of an attempt that has run.
UNWRITTEN = "OutcomeUnwritten"
RESCUED = ("WorkerLost", "Overtime", UNWRITTEN)


@dataclass(slots=True)
class Grant:
    """One claim of one job: its token, and what became of it."""

    token: str
    attempt: int
    lease: int
    # Whether the job had been rescued before, and whether the attempt was marked as begun.
    suspect: bool = False
    begun: bool = False
    end: End | None = None
    end_seq: int = 0
    ended_at: datetime | None = None


@dataclass(slots=True)
class Life:
    """Everything that happened to one job, and what was wrong with it."""

    job: int
    task: str = ""
    subject: str | None = None
    grants: list[Grant] = field(default_factory=list)
    finals: list[Entry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _left: dict[str, Any] | None = None

    def grant_of(self, token: str) -> Grant | None:
        return next((grant for grant in self.grants if grant.token == token), None)

    def add(self, entry: Entry) -> None:
        was, now = entry.was, entry.now
        if entry.source == "history":
            self._finish(entry)
        elif was is None and now is not None:
            self.task, self.subject = now["task"], now["subject"]
        elif now is None:
            self._left = was
        elif was is not None:
            self._change(entry, was, now)
        if now is not None:
            self._check_counts(now)

    def _change(self, entry: Entry, was: dict[str, Any], now: dict[str, Any]) -> None:
        self._check_rise(was, now)
        if was["token"] == now["token"]:
            self._begin(was, now)
            return
        if was["token"] is not None:
            self._end(entry, was, now)
        if now["token"] is not None:
            self._claim(was, now)

    def _claim(self, was: dict[str, Any], now: dict[str, Any]) -> None:
        if was["state"] != "ready":
            self.faults.append(f"was claimed while {was['state']}")
        if now["attempt"] != was["attempt"] + 1:
            self.faults.append(f"attempt {was['attempt']} was followed by {now['attempt']}")
        if self.grant_of(now["token"]):
            self.faults.append(f"token {now['token']} was granted twice")
        self.grants.append(
            Grant(now["token"], now["attempt"], now["lease"], suspect=now["suspect"])
        )

    def _begin(self, was: dict[str, Any], now: dict[str, Any]) -> None:
        if now["token"] is None or was["begun_token"] == now["begun_token"]:
            return
        grant = self.grant_of(now["token"])
        if grant is None or now["begun_token"] != grant.token:
            self.faults.append(f"begun_token {now['begun_token']} is not the attempt's")
        else:
            grant.begun = True

    def _end(self, entry: Entry, was: dict[str, Any], now: dict[str, Any]) -> None:
        grant = self.grant_of(was["token"])
        if grant is None:
            self.faults.append(f"token {was['token']} ended but was never granted")
            return
        grant.end, grant.end_seq, grant.ended_at = _end_of(was, now), entry.seq, entry.at
        has_begun = grant.begun or (now.get("last_error") or {}).get("type") == UNWRITTEN
        if now["losses"] > was["losses"] and not has_begun:
            self.faults.append(f"lost attempt {grant.attempt}, which had not begun, and paid")
        if (paid := now["losses"] - was["losses"]) > 1:
            self.faults.append(f"lost attempt {grant.attempt} and paid {paid} times")
        if grant.end == "lost" and grant.begun and now["losses"] == was["losses"]:
            self.faults.append(f"lost attempt {grant.attempt}, which had begun, for nothing")

    def _finish(self, entry: Entry) -> None:
        if entry.now is None:
            self.faults.append("left the history")
            return
        self.finals.append(entry)
        was, self._left = self._left, None
        if was is None:
            self.faults.append("reached a final state without having been live")
            return
        self._check_rise(was, entry.now)
        if was["token"] is not None:
            self._end(entry, was, entry.now)

    def _check_rise(self, was: dict[str, Any], now: dict[str, Any]) -> None:
        for count in ("attempt", "failures", "losses"):
            if now[count] < was[count]:
                self.faults.append(f"{count} fell from {was[count]} to {now[count]}")

    def _check_counts(self, now: dict[str, Any]) -> None:
        for count, limit in (("failures", "max_attempts"), ("losses", "max_losses")):
            if now[count] > now[limit]:
                self.faults.append(f"{count} is {now[count]}, over its limit of {now[limit]}")


def _end_of(was: dict[str, Any], now: dict[str, Any]) -> End:
    error = now.get("last_error") or {}
    if error.get("type") in RESCUED and error["attempt"] == was["attempt"]:
        return "lost"
    if now["last_token"] == was["token"]:
        return "settled"
    return "released" if now["state"] == "ready" else "ended"


class Leases:
    """When each lease would expire, at any moment of the journal."""

    def __init__(self) -> None:
        self._expiries: dict[int, list[tuple[int, datetime | None]]] = defaultdict(list)

    def add(self, entry: Entry) -> None:
        expires = None if entry.now is None else datetime.fromisoformat(entry.now["expires_at"])
        self._expiries[entry.id].append((entry.seq, expires))

    def was_over(self, lease: int, seq: int, at: datetime) -> bool:
        """Whether a lease had expired or was gone.

        A renewal may commit just after the look that found it expired, hence the last two.
        """
        known = [expires for number, expires in self._expiries[lease] if number < seq]
        return not known or any(expires is None or expires <= at for expires in known[-2:])


def fold(journal: Iterable[Entry]) -> tuple[dict[int, Life], Leases]:
    """The life of every job, and all leases."""
    lives: dict[int, Life] = {}
    leases = Leases()
    for entry in journal:
        if entry.source == "lease":
            leases.add(entry)
        elif entry.source in ("job", "history"):
            lives.setdefault(entry.id, Life(entry.id)).add(entry)
    return lives, leases
