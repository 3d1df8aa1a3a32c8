"""Enqueue over HTTP under load: the short form of the measurement."""

from benchmarks.http.__main__ import measure
from tests.fixtures.database import Database


async def test_overload_is_refused_and_the_rest_is_stored(database: Database) -> None:
    found = await measure(database.url, connections=32, seconds=0.2, rounds=1)

    assert found["stored"]["jobs_a_second"] > 0
    crowd = found["ten_times_that_do_not"]
    assert crowd["jobs_a_second"] > 0
    assert crowd["refused_a_second"] > 0
    assert crowd["others"] == 0
    assert found["memory_mib"] < 400
