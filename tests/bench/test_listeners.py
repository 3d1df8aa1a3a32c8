"""Many who listen to one server: the short form of the measurement."""

from benchmarks.listeners.__main__ import measure
from penstock.config import Database as Settings
from tests.fixtures.database import Database


async def test_a_hundred_listeners_cost_little_and_all_hear_the_end(database: Database) -> None:
    found = await measure(100, 0.5, 0, Settings(database.url))

    assert found["ended"]["one_end_each"]
    assert found["ended"]["events"] == 200
    # One look for all is four a second, and some for the measurement itself; one each were 400.
    assert found["idle"]["transactions_a_second"] < 100
    assert found["memory_kib_a_listener"] < 400
