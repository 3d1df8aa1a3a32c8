"""Tools for testing code that uses Penstock, on a real Postgres.

    from penstock.testing import assert_enqueued, drain, run

    assert await run(greet, "Ada") == "Hello, Ada"      # runs one task, without a database

    await sign_up("Ada")                                # your code, which enqueues a job
    await assert_enqueued(app, welcome, {"name": "Ada"})
    await drain(app)                                    # runs the enqueued jobs

Ask pytest for the fixtures `penstock_app` or `penstock_url` to get a database for a test.
"""

from penstock.testing import faults
from penstock.testing.clock import advance, advance_to
from penstock.testing.databases import for_tests, led_to
from penstock.testing.drain import drain
from penstock.testing.errors import AttemptFailed, NotDrained, NotForTests
from penstock.testing.inline import Inline, Ran, Told, attempt, run
from penstock.testing.jobs import assert_enqueued, assert_nothing_enqueued, enqueued

__all__ = [
    "AttemptFailed",
    "Inline",
    "NotDrained",
    "NotForTests",
    "Ran",
    "Told",
    "advance",
    "advance_to",
    "assert_enqueued",
    "assert_nothing_enqueued",
    "attempt",
    "drain",
    "enqueued",
    "faults",
    "for_tests",
    "led_to",
    "run",
]
