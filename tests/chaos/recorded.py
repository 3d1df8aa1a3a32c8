"""The queue's statements, with everything a worker or an enqueuer asks and hears written down."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from penstock.store import ClaimedJob, Settlement, Store, errors
from penstock.store.enqueue import Stored
from tests.chaos.lines import Lines, Outcome

SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


@dataclass(slots=True)
class Failpoint:
    """Where a process kills or freezes itself: just before a statement or just after its answer.

    "settle.before:kill:3" means the third settle, before it is sent.
    """

    place: str
    signal: signal.Signals
    left: int

    @classmethod
    def parse(cls, text: str) -> Self:
        place, action, nth = text.split(":")
        return cls(place, SIGNALS[action], int(nth))

    def reach(self, place: str) -> None:
        if place != self.place:
            return
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.signal)


class RecordedStore(Store):
    """Writes each claim, settle and enqueue to a log: that it was asked, and what was heard."""

    def __init__(self, log: Lines, failpoint: Failpoint | None = None) -> None:
        super().__init__()
        self._log = log
        self._failpoint = failpoint
        self.tokens: dict[tuple[int, int], str] = {}

    def _reach(self, place: str) -> None:
        if self._failpoint is not None:
            self._failpoint.reach(place)

    async def claim(self, *args: Any, **kwargs: Any) -> list[ClaimedJob]:
        self._log.write("claim", "invoke")
        self._reach("claim.before")
        try:
            jobs = await super().claim(*args, **kwargs)
        except BaseException as error:
            self._log.write("claim", outcome_of(error), error=repr(error))
            raise
        if jobs:
            self._reach("claim.after")
        for job in jobs:
            self.tokens[job.id, job.number] = str(job.token)
        self._log.write_all(
            "claim",
            "ok",
            [{"job": each.id, "token": each.token, "attempt": each.number} for each in jobs],
        )
        return jobs

    async def settle(self, on: Any, settlements: Sequence[Settlement], **kwargs: Any) -> Any:
        asked = [_told(each) for each in settlements]
        self._log.write_all("settle", "invoke", asked)
        self._reach("settle.before")
        try:
            unsettled = await super().settle(on, settlements, **kwargs)
        except BaseException as error:
            self._log.write_all("settle", outcome_of(error), asked)
            raise
        self._reach("settle.after")
        answers = {(job, str(token)): answer for job, token, answer in unsettled}
        # Inside a handler's transaction nothing is settled before its commit.
        settled: Outcome = "ok" if kwargs.get("durable", True) else "info"
        for each in asked:
            answer = answers.get((each["job"], each["token"]))
            outcome: Outcome = settled if answer is None else "fail"
            self._log.write("settle", outcome, **each, answer=answer)
        return unsettled

    async def enqueue(self, on: Any, requests: Any, **kwargs: Any) -> Stored:
        asked = [
            {"key": request.options.subject, "tenant": request.options.tenant}
            for request in requests
        ]
        self._log.write_all("enqueue", "invoke", asked)
        try:
            stored = await super().enqueue(on, requests, **kwargs)
        except BaseException as error:
            self._log.write_all("enqueue", outcome_of(error), asked)
            raise
        self._log.write_all(
            "enqueue",
            "ok",
            [{**each, "job": job} for each, job in zip(asked, stored.ids, strict=True)],
        )
        return stored


def outcome_of(error: BaseException) -> Outcome:
    """A database that said no did nothing; one that said nothing may have done it."""
    if isinstance(error, Exception) and not errors.is_lost(error):
        return "fail"
    return "info"


def _told(settlement: Settlement) -> dict[str, Any]:
    return {
        "job": settlement.id,
        "token": str(settlement.token),
        "state": settlement.transition.state,
    }
