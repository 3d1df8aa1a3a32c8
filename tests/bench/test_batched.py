"""`penstock bench --batch`: one batch of all jobs against plain jobs."""

from penstock.bench.batched import SCENES, BatchComparison
from penstock.bench.plan import BenchPlan
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import open_sandbox
from penstock.config import Database as Settings
from tests.fixtures.database import Database


async def test_a_batch_is_drained_and_compared_with_plain_jobs(database: Database) -> None:
    async with open_sandbox(Settings(database.url)) as sandbox:
        batched = BatchComparison(sandbox, BenchPlan(jobs=1000, rounds=1, batch=True), LiveLine())
        await batched.run()
    found = batched.as_dict()
    assert set(found["drains"]) == set(SCENES)
    assert set(found["drains"]["batch_held"]["over"]) == {"plain_held"}
    assert found["drains"]["plain"]["over"] == {}
    assert found["bulk_over_plain"]["median"] > 0
