"""`penstock bench --tenants`: fair queues and limits against a plain queue."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from penstock.bench.fair import FairComparison, compare_rates, fair_scenes, tenant_names
from penstock.bench.plan import FEW_TENANTS, BenchPlan
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import Sandbox, open_sandbox
from penstock.config import Database as Settings
from tests.fixtures.database import Database

# It measures with several processes, one after the other: a slow machine has its time.
pytestmark = pytest.mark.timeout(400)

TENANTS = 300
# One of each kind: fair, limited, held, past those that are done. The long form has those that
# they are compared with as well.
ASKED = ("plain", "many", "many_limited_held", "emptied")
if "PENSTOCK_LONG" in os.environ:
    ASKED += ("one", "plain_held", "emptied_one")


@pytest.fixture
async def sandbox(database: Database) -> AsyncIterator[Sandbox]:
    async with open_sandbox(Settings(database.url)) as sandbox:
        yield sandbox


async def test_fair_bench_drains_all_jobs_of_all_tenants(sandbox: Sandbox) -> None:
    plan = BenchPlan(jobs=1000, rounds=1, tenants=TENANTS)
    some = {
        name: replace(
            scene, compared_with=tuple(each for each in scene.compared_with if each in ASKED)
        )
        for name, scene in fair_scenes(TENANTS).items()
        if name in ASKED
    }
    fair = FairComparison(sandbox, plan, LiveLine(), some)
    await fair.run()

    found = fair.as_dict()
    assert set(found["drains"]) == set(ASKED)
    for drain in found["drains"].values():
        assert drain["jobs_per_s"] > 0
        assert drain["cpu_ms_per_1000_jobs"] > 0
    assert set(found["drains"]["many"]["over"]) == {"plain", "one"} & set(ASKED)
    assert found["enqueue"]["bulk_over_plain"]["median"] > 0
    assert found["enqueue"]["single_over_plain"]["median"] > 0
    # What was set for the measurements is not left to the next ones.
    assert not await sandbox.app.limits()
    assert not any(queue.fair for queue in await sandbox.app.queue_settings())


def test_each_drain_is_compared_with_one_of_the_same_round() -> None:
    every = fair_scenes(10_000)

    for name, scene in every.items():
        for other in scene.compared_with:
            assert every[other].held is scene.held, name
            assert every[other].processes == scene.processes, name


def test_remaining_tenants_are_spread_among_finished_ones() -> None:
    everybody, left = tenant_names(1000, 1000), tenant_names(FEW_TENANTS, 1000)

    assert len(set(everybody)) == 1000
    assert everybody == sorted(everybody)
    assert [everybody.index(name) for name in left] == list(range(0, 1000, 10))
    assert tenant_names(0, 1000) == []


def test_ratios_are_taken_within_the_rounds() -> None:
    assert compare_rates([50, 10, 90], [100, 10, 100]) == {"median": 0.9, "least": 0.5, "most": 1.0}
