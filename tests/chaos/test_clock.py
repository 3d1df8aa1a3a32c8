"""Workers whose clocks are wrong: only the database's time decides."""

from tests.chaos.scene import Scene

DAY = 86_400.0


async def test_wrong_worker_clocks_neither_lose_nor_hasten_jobs(scene: Scene) -> None:
    flaky = await scene.enqueue("flaky", count=10)
    await scene.enqueue("slow", 2.0, count=4)
    scene.worker("days behind", clock_offset=-3 * DAY)
    scene.worker("days ahead", clock_offset=3 * DAY)
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == 14
    assert await scene.value("SELECT sum(losses) FROM penstock.job_history") == 0
    assert await scene.value("SELECT sum(failures) FROM penstock.job_history") == len(flaky)
