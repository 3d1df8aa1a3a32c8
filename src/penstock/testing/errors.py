"""Exceptions of the tools for tests. Most are assertions, so that a test simply fails."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.job import AttemptError

# The types of error that are stored when a handler returns Retry or Discard.
RETURNED_TYPES = ("Retry", "Discard")


class NotDrained(AssertionError):
    """`drain` could not run all jobs. The message says which job is to blame."""


class NotForTests(PenstockError):
    """The app's database is not known to be for tests. The message says what to do."""


class AttemptFailed(AssertionError):
    """An attempt failed although its handler raised nothing. The message says how."""


class NoTestDatabase(PenstockError):
    """No database could be made for a test. The message says why."""


def unexpected_failure(error: AttemptError) -> Exception | None:
    """Return an exception for a stored error that the handler did not raise itself.

    Returns None if the handler asked for the failure, or if only its worker was lost.
    """
    if error.type in RETURNED_TYPES or error.kind == "lost":
        return None
    if error.kind == "timeout":
        return TimeoutError(error.message)
    return AttemptFailed(f"{error.message} ({error.type})")
