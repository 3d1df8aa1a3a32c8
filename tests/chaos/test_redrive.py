"""Dead letters that come back at a rate while two worker processes wait for them."""

from datetime import timedelta
from itertools import pairwise

from tests.chaos.scene import Scene
from tests.fixtures.database import connected
from tests.fixtures.dead import dead

JOBS = 30
ENDED = "SELECT id, state, attempt, run_at, attempted_at FROM penstock.job_history ORDER BY run_at"


async def test_no_more_start_than_the_rate_allows_and_each_runs_once(scene: Scene) -> None:
    workers = [scene.worker(name) for name in ("left", "right")]
    for worker in workers:
        await worker.ready()
    async with connected(scene.url) as connection:
        letters = await dead(connection, JOBS, task="note")
        async with scene.app() as app:
            assert (await app.redrive(task="note", rate="20/s")).number == JOBS
        await scene.drained()
        ended = await connection.fetch(ENDED)
    assert [str(row["id"]) for row in ended] == letters
    assert {(row["state"], row["attempt"]) for row in ended} == {("completed", 2)}
    # By any moment no more have started than were due by then, and those are a twentieth apart.
    assert [row for row in ended if row["attempted_at"] < row["run_at"]] == []
    gaps = {later["run_at"] - row["run_at"] for row, later in pairwise(ended)}
    assert gaps == {timedelta(seconds=0.05)}
    assert sorted(effect["job"] for effect in scene.effects(what="start")) == [
        row["id"] for row in sorted(ended, key=lambda row: row["id"])
    ]
