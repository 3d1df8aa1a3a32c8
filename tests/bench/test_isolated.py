"""`penstock bench --isolated`: jobs in child processes against plain ones."""

import os

import pytest

from penstock.bench.isolated import SCENES, IsolationComparison
from penstock.bench.plan import BenchPlan
from penstock.bench.report import LiveLine, isolation_costs
from penstock.bench.sandbox import open_sandbox
from penstock.config import Database as Settings
from tests.fixtures.database import Database

# Measures for a while: a part of the long form, as other loads are.
long = pytest.mark.skipif("PENSTOCK_LONG" not in os.environ, reason="PENSTOCK_LONG is not set")


@pytest.mark.parametrize(
    ("isolated", "plain"),
    [
        pytest.param("isolated", "plain", id="async"),
        pytest.param("isolated_sync", "plain_sync", id="sync", marks=long),
    ],
)
async def test_isolated_jobs_are_drained_and_compared_with_plain_ones(
    database: Database, isolated: str, plain: str
) -> None:
    async with open_sandbox(Settings(database.url)) as sandbox:
        plan = BenchPlan(jobs=1000, rounds=1, isolated=True)
        measured = IsolationComparison(sandbox, plan, LiveLine(), (plain, isolated), deaths=3)
        await measured.run()
    found = measured.as_dict()
    assert set(found["drains"]) == {plain, isolated} < set(SCENES)
    assert set(found["drains"][isolated]["over"]) == {plain}
    assert found["drains"][isolated]["children_cpu_us_per_job"] > 0
    assert found["drains"][plain]["children_cpu_us_per_job"] == 0
    assert 0 < found["next_child_ms"]["p50"] <= found["next_child_ms"]["p99"]
    assert len(isolation_costs(found)) == 3
