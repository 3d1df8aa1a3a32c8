"""How an attempt ends that has to wait: its handler begins again later."""

from __future__ import annotations

from penstock.outcome import Snooze, Waiting


class Suspended(BaseException):
    """Ends an attempt whose job must wait, uncounted; `outcome` says for what.

    Not an Exception: `except Exception` around a call, or a library that tries again whatever
    fails, would swallow it, and the handler would go on without what it waits for. `finally` runs.
    """

    def __init__(self, outcome: Snooze | Waiting, message: str) -> None:
        self.outcome = outcome
        super().__init__(message)


def suspension(error: BaseException) -> Suspended | None:
    """The longest wait that an error stands for; None if it, or one of its group, is another."""
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Suspended) else None
    waits = [suspension(one) for one in error.exceptions]
    known = [wait for wait in waits if wait is not None]
    return max(known, key=_length) if len(known) == len(waits) else None


def _length(wait: Suspended) -> float:
    # An event is kept for the job, whenever it comes; nothing else would wake it in time.
    outcome = wait.outcome
    return -1.0 if isinstance(outcome, Waiting) else float(outcome.delay)  # type: ignore[arg-type]
