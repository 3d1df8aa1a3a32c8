"""Workers that are killed at the worst moments."""

import signal

import pytest

from tests.chaos.held_commit import held_commit
from tests.chaos.scene import Scene

JOBS = 10  # as many as one claim takes


@pytest.mark.parametrize(
    ("place", "runs_twice", "counts_losses"),
    [
        ("claim.before", False, False),  # nothing was claimed
        ("claim.after", False, True),  # claimed, but never begun
        ("settle.before", True, True),  # done, but nobody was told
        ("settle.after", False, False),  # done and told: nobody does it again
    ],
)
async def test_a_worker_killed_before_or_after_a_commit_loses_no_job(
    scene: Scene, place: str, runs_twice: bool, counts_losses: bool
) -> None:
    await scene.enqueue("note", count=JOBS)
    victim = scene.worker("victim", failpoint=f"{place}:kill:1")
    assert await victim.ended() == -signal.SIGKILL
    await scene.bury()
    scene.worker("heir")
    await expect_all_completed(scene, runs_twice, counts_losses)


@pytest.mark.parametrize(
    ("table", "commits", "runs_twice", "counts_losses"),
    [
        ("job", True, False, True),
        ("job", False, False, False),
        ("job_history", True, False, False),
        ("job_history", False, True, True),
    ],
    ids=["claim-commits", "claim-rolled-back", "settle-commits", "settle-rolled-back"],
)
async def test_a_worker_killed_during_a_commit_loses_no_job_whichever_way_the_commit_goes(
    scene: Scene, table: str, commits: bool, runs_twice: bool, counts_losses: bool
) -> None:
    await scene.enqueue("note", count=JOBS)
    async with held_commit(scene.url, table) as commit:
        victim = scene.worker("victim")
        backend = await commit.waiting()
        victim.kill()
        if not commits:
            await commit.roll_back(backend)
    await scene.bury()
    scene.worker("heir")
    await expect_all_completed(scene, runs_twice, counts_losses)


async def expect_all_completed(scene: Scene, runs_twice: bool, counts_losses: bool) -> None:
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == JOBS
    assert verdict.numbers["jobs that ran more than once"] == (JOBS if runs_twice else 0)
    losses = await scene.value("SELECT sum(losses) FROM penstock.job_history")
    assert losses == (JOBS if counts_losses else 0)


async def test_a_job_whose_worker_is_killed_in_the_middle_of_it_is_run_by_another(
    scene: Scene,
) -> None:
    [job] = await scene.enqueue("dies", 1)
    workers = [scene.worker("one"), scene.worker("other")]
    await scene.deaths(1)
    await scene.drained()
    row = await scene.row(job)
    assert (row["state"], row["attempt"], row["losses"]) == ("completed", 2, 1)
    assert sorted(worker.is_running for worker in workers) == [False, True]
    await scene.expect_promises_kept()


async def test_a_job_that_kills_every_worker_is_given_up_and_its_neighbours_are_not(
    scene: Scene,
) -> None:
    [bad] = await scene.enqueue("dies", 100)
    await scene.enqueue("slow", 0.01, count=20)
    workers = [scene.worker(f"worker-{number}") for number in range(4)]
    for death in (1, 2, 3):
        await scene.deaths(death)
    await scene.drained()
    row = await scene.row(bad)
    assert (row["state"], row["reason"], row["losses"]) == ("failed", "worker_lost", 3)
    assert sum(worker.is_running for worker in workers) == 1
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == 20
    # Only the first death, when nobody knew better, may cost a neighbour a loss.
    assert (
        await scene.value("SELECT max(losses) FROM penstock.job_history WHERE id <> $1", bad) <= 1
    )
