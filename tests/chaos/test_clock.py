"""Workers whose clocks are wrong: only the database's time decides."""

import pytest

from tests.chaos.scene import Scene

DAY = 86_400.0


@pytest.mark.parametrize("offset", [-3 * DAY, 3 * DAY], ids=["slow", "fast"])
async def test_a_worker_with_a_wrong_clock_neither_loses_nor_takes_a_job_too_early(
    scene: Scene, offset: float
) -> None:
    await scene.enqueue("flaky", count=5)
    await scene.enqueue("slow", 2.0, count=2)
    wrong = scene.worker("wrong", clock_offset=offset)
    await wrong.ready()
    scene.worker("right")
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == 7
    assert await scene.value("SELECT max(losses) FROM penstock.job_history") == 0
    assert await scene.value("SELECT sum(failures) FROM penstock.job_history") == 5
