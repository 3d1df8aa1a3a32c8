"""The measurement of shared calls: a small run of it, and its table on the page."""

from benchmarks.micro_batching.__main__ import measure
from benchmarks.micro_batching.table import rows
from benchmarks.page import micro_batching
from penstock.bench.live import Live
from penstock.config import Database as Settings
from tests.fixtures.database import Database


async def test_all_loads_are_worked_off_by_a_real_worker(database: Database) -> None:
    found = await measure(200, Settings(database.url), Live())

    for name, load in found["loads"].items():
        is_alone = name.endswith("_alone")
        assert load["calls"] == load["items"] if is_alone else load["calls"] < load["items"]
        assert load["wait_ms"] is None or 0 < load["wait_ms"]["p50"] <= load["wait_ms"]["p95"]
    for row in rows(found):
        assert f"| {' | '.join(row)} |" in micro_batching.calls(found)
