"""The simulation of many tenants: its load, what it finds, and a small run of it."""

import pytest

from benchmarks.fairness.__main__ import measure
from benchmarks.fairness.findings import fair_shares, findings, groups, jain
from benchmarks.fairness.load import Load
from benchmarks.fairness.simulation import Start
from benchmarks.fairness.table import rows
from benchmarks.page import fairness
from penstock.bench.report import LiveLine
from penstock.config import Database as Settings
from tests.fixtures.database import Database


async def test_both_ways_run_all_jobs_on_real_workers(database: Database) -> None:
    load = Load(tenants=40, jobs=300, seconds=0.3, at_once=2)
    found = await measure(load, Settings(database.url), LiveLine())

    assert found["load"]["jobs"] == len(load.arrivals())
    for way in ("first_come", "fair"):
        assert 0 < found[way]["jain"] <= 1
        assert 0 < found[way]["wait_s"]["p50"] <= found[way]["wait_s"]["max"]
    for row in rows(found):
        assert f"| {' | '.join(row)} |" in fairness.waits(found)


def test_the_same_jobs_arrive_every_time() -> None:
    load = Load(tenants=100, jobs=1000, seconds=10.0, at_once=3)

    arrivals = load.arrivals()
    assert arrivals == load.arrivals()
    assert len(arrivals) == sum(load.sizes())
    assert load.sizes()[0] == pytest.approx(2 * load.sizes()[1], abs=1)
    assert min(load.sizes()) >= 1
    assert {one.tenant for one in arrivals if one.at == 0.0} == {0, 1, 2}
    assert max(one.at for one in arrivals) <= 10.0


def test_nobody_could_get_more_but_from_somebody_who_has_no_more() -> None:
    assert fair_shares([100, 10, 1], 31) == [20.0, 10.0, 1.0]
    assert fair_shares([100, 90, 2], 50) == [24.0, 24.0, 2.0]
    assert fair_shares([5, 5], 100) == [5.0, 5.0]


def test_jains_index_is_one_where_all_have_the_same() -> None:
    assert jain([2.0, 2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_every_rank_is_in_one_group() -> None:
    for tenants in (1, 10, 40, 10_000):
        covered = [rank for first, last in groups(tenants) for rank in range(first, last)]
        assert covered == list(range(tenants))


def test_who_is_served_in_turns_waits_less_and_has_a_fair_share() -> None:
    load = Load(tenants=2, jobs=60, seconds=10.0, at_once=1)  # 40 and 20 jobs
    big = [(0, 0.0)] * 40
    small = [(1, number / 2) for number in range(20)]
    mixed = [pair for pairs in zip(big, small, strict=False) for pair in pairs] + big[20:]
    # Four jobs a second.
    behind = [Start(who, at, place / 4) for place, (who, at) in enumerate([*big, *small])]
    in_turns = [Start(who, at, max(at, place / 4)) for place, (who, at) in enumerate(mixed)]

    first_come, fair = findings(load, behind), findings(load, in_turns)
    assert fair["jain"] == pytest.approx(1.0, abs=0.01)
    assert first_come["jain"] < 0.6
    assert fair["small_wait_s"]["p50"] < first_come["small_wait_s"]["p50"]


def test_findings_count_the_first_start_after_the_last_arrival() -> None:
    load = Load(tenants=4, jobs=8, seconds=0.3, at_once=2)
    found = findings(load, [Start(number % 4, 0.1, 0.5 + number) for number in range(8)])

    assert (found["started"], found["jain"]) == (1, 0.25)
