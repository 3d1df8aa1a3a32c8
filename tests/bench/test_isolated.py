"""`penstock bench --isolated`: jobs in child processes against plain ones."""

from penstock.bench.ground import open_ground
from penstock.bench.isolated import SCENES, Isolated
from penstock.bench.live import Live
from penstock.bench.plan import Plan
from penstock.bench.table import _costs
from penstock.config import Database as Settings
from tests.fixtures.database import Database


async def test_isolated_jobs_are_drained_and_compared_with_plain_ones(
    database: Database,
) -> None:
    async with open_ground(Settings(database.url)) as ground:
        isolated = Isolated(ground, Plan(jobs=1000, rounds=1, isolated=True), Live(), deaths=3)
        await isolated.run()
    found = isolated.as_dict()
    assert set(found["drains"]) == set(SCENES)
    assert set(found["drains"]["isolated_sync"]["over"]) == {"plain_sync"}
    assert found["drains"]["isolated"]["children_cpu_us_per_job"] > 0
    assert found["drains"]["plain"]["children_cpu_us_per_job"] == 0
    assert 0 < found["next_child_ms"]["p50"] <= found["next_child_ms"]["p99"]
    assert len(_costs(found)) == len(SCENES) + 1
