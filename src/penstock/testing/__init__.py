"""Testing code that uses Penstock, on a real Postgres."""

from penstock.testing.errors import AttemptFailed
from penstock.testing.inline import Inline, attempt, run
from penstock.testing.jobs import assert_enqueued, assert_nothing_enqueued, enqueued
from penstock.testing.ran import Ran, Told

__all__ = [
    "AttemptFailed",
    "Inline",
    "Ran",
    "Told",
    "assert_enqueued",
    "assert_nothing_enqueued",
    "attempt",
    "enqueued",
    "run",
]
