"""The checker finds each promise that the queue breaks, not only in hand-made evidence."""

from tests.chaos import mutation
from tests.chaos.scene import Scene
from tests.chaos.test_limits import SLOTS, WORKERS, enqueue, set_limits
from tests.fixtures.until import until

# Far longer than a job takes that a worker was told of.
RESCAN = 5.0
PATIENCE = 2.0


def expect_found(violations: list[str], words: str) -> None:
    assert any(words in violation for violation in violations), violations


async def test_a_lease_that_is_judged_by_a_workers_clock_is_found(scene: Scene) -> None:
    await mutation.judge_leases_by_a_fast_clock(scene.url)
    [job] = await scene.enqueue("gated", "work")
    scene.worker("one")
    lost = (
        "SELECT count(*) > 0 FROM chaos.journal WHERE source = 'job' AND now ->> 'suspect' = 'true'"
    )
    await until(lambda: scene.value(lost), what=f"job {job} to be taken away")
    expect_found((await scene.verdict()).violations, "was taken from lease")


async def test_slots_that_are_counted_without_their_lock_are_found(scene: Scene) -> None:
    await mutation.count_slots_without_their_lock(scene.url)
    await set_limits(scene)
    for worker in [scene.worker(f"worker-{number}") for number in range(WORKERS)]:
        await worker.ready()

    async def is_found() -> bool:
        # So many that several workers have to ask for slots.
        await enqueue(scene, 10 * SLOTS, 0.05)
        return any(each.startswith("I6") for each in (await scene.verdict()).violations)

    await until(is_found, 60, what="more slots than there are")


async def test_a_loss_that_is_counted_twice_is_found(scene: Scene) -> None:
    await mutation.count_each_loss_twice(scene.url)
    [job] = await scene.enqueue("dies", 2)
    for number in (1, 2):
        scene.worker(f"worker-{number}")
        await scene.deaths(number)
    scene.worker("last")
    await scene.settled(job)
    expect_found((await scene.verdict()).violations, "and paid 2 times")


async def test_new_jobs_of_which_nobody_is_told_are_found(scene: Scene) -> None:
    await mutation.tell_nobody_of_new_jobs(scene.url)
    scene.worker("one", rescan=RESCAN)

    async def is_found() -> bool:
        # A job may come just before the worker looks by itself: the next one cannot.
        await scene.enqueue("note")
        await scene.drained(6 * RESCAN)
        return any(each.startswith("I7") for each in (await scene.verdict(PATIENCE)).violations)

    await until(is_found, 12 * RESCAN, what="a job that nobody was told of")
