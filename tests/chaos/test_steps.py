"""Durable steps and events, with several worker processes that are killed between them."""

from collections import defaultdict
from typing import Any

from tests.chaos.scene import Scene
from tests.fixtures.until import until

JOBS, STEPS = 12, 8
WORKERS = 3
SLOTS = 4


async def test_finished_steps_do_not_run_again_after_kills(scene: Scene) -> None:
    """But for the one whose result was on its way when the worker died."""
    await scene.enqueue("steps", STEPS, 0.01, count=JOBS)
    workers = [scene.worker(f"worker-{number}", slots=SLOTS) for number in range(WORKERS)]
    for number, enough in enumerate((JOBS, 3 * JOBS)):
        await until(lambda enough=enough: len(parts(scene)) >= enough, 30, what="some steps")
        await scene.kill(workers[number])
    scene.worker("heir", slots=SLOTS)
    await scene.drained(60)
    await scene.expect_promises_kept(patience=60)

    runs = parts(scene)
    assert {(one["job"], one["what"]) for one in runs} == {
        (job, f"step {number}") for job in {one["job"] for one in runs} for number in range(STEPS)
    }
    assert repeated_though_finished(runs) == []
    assert await scene.value("SELECT count(*) FROM penstock.step") == JOBS * STEPS


def parts(scene: Scene) -> list[dict[str, Any]]:
    return [one for one in scene.effects() if str(one.get("what")).startswith("step ")]


def repeated_though_finished(runs: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Steps that a later attempt ran although the one that had run it went on to the next."""
    by_attempt: dict[tuple[int, int], list[str]] = defaultdict(list)
    for one in runs:
        by_attempt[one["job"], one["attempt"]].append(one["what"])
    finished = {
        (job, what, attempt)
        for (job, attempt), whats in by_attempt.items()
        for what in whats[:-1]  # its result is kept, or the next would not have begun
    }
    ran = {(one["job"], one["what"], one["attempt"]) for one in runs}
    return [
        (job, what)
        for job, what, attempt in finished
        if any((job, what, later) in ran for later in range(attempt + 1, 10))
    ]


async def test_jobs_get_events_once_and_in_order_despite_kills(scene: Scene) -> None:
    """Sent while some of them go to sleep, by whoever is left to wake them."""
    workers = [scene.worker(f"worker-{number}", slots=SLOTS) for number in range(WORKERS)]
    jobs = await scene.enqueue("waits", "go", count=JOBS)
    async with scene.app() as app:
        await app.send_event("go", 1)
        await until(lambda: asleep(scene), 30, what="a job to wait for the second event")
        await scene.kill(workers[0])
        await app.send_event("go", 2)
    scene.worker("heir", slots=SLOTS)
    await scene.drained(60)
    assert {one["job"] for one in scene.effects(what="got")} == set(jobs)
    done = "SELECT count(*) FROM penstock.job_history WHERE state = 'completed'"
    assert await scene.value(done) == JOBS


async def asleep(scene: Scene) -> bool:
    waits = "SELECT count(*) > 0 FROM penstock.event_wait WHERE step = 'go:2'"
    return bool(await scene.value(waits))
