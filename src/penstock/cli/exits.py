"""How a command ends, as a number."""

from __future__ import annotations

from enum import IntEnum

from penstock.cli.errors import Interrupted, NotFound, SettingNotFound, reason_of
from penstock.errors import (
    BatchNotFound,
    BatchTimeout,
    ConfigError,
    IdempotencyMismatch,
    JobCancelled,
    JobConflict,
    JobFailed,
    JobNotFound,
    KeyNotFound,
    NameTaken,
    PenstockError,
    PersonNotFound,
    ScheduleNotFound,
    UniqueConflict,
    WaitTimeout,
    WorkflowNotFound,
    WorkflowTimeout,
)


class Exit(IntEnum):
    """The exit codes of every command, with what they mean."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        made = int.__new__(cls, code)
        made._value_ = code
        made.meaning = meaning
        return made

    OK = 0, "Done."
    ERROR = 1, "It could not be done; the message says why."
    USAGE = 2, "The command line, or a setting, makes no sense."
    NO = 3, "The answer is no: no such job, no server runs, a migration is due, something is wrong."
    CONFLICT = 4, "Some jobs were left as they are: their state, or a key, does not allow it."
    FAILED = 5, "What was waited for has failed or was cancelled."
    TIMEOUT = 6, "What was waited for has not ended in time."
    STALLED = 70, "A worker's event loop was blocked for five minutes."
    CUT_SHORT = 71, "A stop took longer than its limit, or a third signal came; the log says why."
    INTERRUPTED = 130, "Interrupted by Ctrl-C."


_CODES: dict[type[PenstockError], Exit] = {
    ConfigError: Exit.USAGE,
    JobNotFound: Exit.NO,
    BatchNotFound: Exit.NO,
    WorkflowNotFound: Exit.NO,
    ScheduleNotFound: Exit.NO,
    KeyNotFound: Exit.NO,
    PersonNotFound: Exit.NO,
    NameTaken: Exit.CONFLICT,
    SettingNotFound: Exit.NO,
    NotFound: Exit.NO,
    JobConflict: Exit.CONFLICT,
    IdempotencyMismatch: Exit.CONFLICT,
    UniqueConflict: Exit.CONFLICT,
    JobFailed: Exit.FAILED,
    JobCancelled: Exit.FAILED,
    WaitTimeout: Exit.TIMEOUT,
    BatchTimeout: Exit.TIMEOUT,
    WorkflowTimeout: Exit.TIMEOUT,
    Interrupted: Exit.INTERRUPTED,
}


def exit_of(error: PenstockError) -> Exit:
    """The exit code that an error means."""
    kinds = type(reason_of(error)).__mro__
    return next((_CODES[kind] for kind in kinds if kind in _CODES), Exit.ERROR)
