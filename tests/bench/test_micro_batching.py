"""The measurement of shared calls: a small run of it, and its table on the page."""

from benchmarks.micro_batching.__main__ import measure
from benchmarks.micro_batching.load import Load, loads
from benchmarks.micro_batching.table import NAMES, rows
from benchmarks.page import micro_batching
from penstock.bench.report import LiveLine
from penstock.config import Database as Settings
from tests.fixtures.database import Database


async def test_items_are_worked_off_by_a_real_worker(database: Database) -> None:
    given = [Load("backlog", 300), Load("fast_alone", 100, 2000.0, is_shared=False)]
    found = await measure(given, Settings(database.url), LiveLine())

    backlog, alone = found["loads"]["backlog"], found["loads"]["fast_alone"]
    assert backlog["ideal"] == 5 <= backlog["calls"] < 50
    assert (alone["calls"], alone["ideal"]) == (100, 2)
    assert 0 < alone["wait_ms"]["p50"] <= alone["wait_ms"]["p95"]
    for row in rows(found):
        assert f"| {' | '.join(row)} |" in micro_batching.calls(found)


def test_each_rate_is_measured_with_a_call_for_each_item_as_well() -> None:
    rates = {(load.rate, load.is_shared) for load in loads(10_000)}
    assert rates == {(None, True), (200, True), (200, False), (2000, True), (2000, False)}
    assert {load.name for load in loads(10_000)} == NAMES.keys()
