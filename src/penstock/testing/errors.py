"""What the tools for tests raise of their own: mostly assertions, so that a test just fails."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.job import AttemptError

# What the settle notes when a handler returns one of these.
ASKED_FOR = ("Retry", "Discard")


class NotDrained(AssertionError):
    """The queue could not be worked off; the message says which job is to blame."""


class NotForTests(PenstockError):
    """The app's database may be the one that the program uses; the message says what to do."""


class AttemptFailed(AssertionError):
    """An attempt failed although its handler raised nothing; the message says how."""


class NoTestDatabase(PenstockError):
    """A test could not be given a database; the message says why."""


def surprise(error: AttemptError) -> Exception | None:
    """A failure that the queue has as text, to be raised where no exception is at hand.

    None if the handler asked for it, or if only its worker was lost.
    """
    if error.type in ASKED_FOR or error.kind == "lost":
        return None
    if error.kind == "timeout":
        return TimeoutError(error.message)
    return AttemptFailed(f"{error.message} ({error.type})")
