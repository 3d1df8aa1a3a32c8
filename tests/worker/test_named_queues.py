"""A worker that is given no queues serves those that the code of its app names."""

from typing import Any

import pytest

from penstock import ConfigError, Penstock


async def test_worker_serves_queues_of_its_tasks_and_schedules(app: Penstock) -> None:
    @app.task(queue="email")
    async def send() -> str:
        return "sent"

    @app.task
    async def tidy() -> None: ...

    app.schedule("nightly", tidy.options(queue="nights"), every=86_400)
    async with app.worker() as worker:
        assert await app.wait(await app.enqueue(send), timeout=30) == "sent"
        assert {name: state.slots.limit for name, state in worker.states.items()} == {
            "default": 100,
            "email": 100,
            "nights": 100,
        }


async def test_worker_reads_the_queues_of_its_app_when_it_starts(app: Penstock) -> None:
    worker = app.worker()

    @app.task(queue="late")
    async def registered_late() -> None: ...

    async with worker:
        assert list(worker.states) == ["late"]


async def test_worker_serves_queues_of_runtime_schedules(app: Penstock) -> None:
    @app.task(name="tidy")
    async def tidy() -> str:
        return "tidied"

    other = Penstock(app.url)

    @other.task(name="elsewhere")
    async def elsewhere() -> None: ...

    await app.set_schedule("nightly", tidy.options(queue="nights").prepare(), every=86_400)
    await app.set_schedule("other", elsewhere.options(queue="theirs").prepare(), every=86_400)
    async with app.worker() as worker:
        # A queue of tasks that this app does not have is for another worker.
        assert sorted(worker.states) == ["default", "nights"]
        ran = await app.run_schedule("nightly")
        assert await app.wait(ran, timeout=30) == "tidied"
    async with app.worker("default") as worker:
        assert list(worker.states) == ["default"]


async def test_queues_that_are_given_are_the_only_ones(app: Penstock) -> None:
    @app.task(queue="email")
    async def send() -> None: ...

    async with app.worker("reports") as worker:
        assert list(worker.states) == ["reports"]


@pytest.mark.parametrize("given", [[], {}, (), 5, True, {"email": 0}, {"email": True}, [5]])
def test_queues_that_make_no_sense_are_refused(app: Penstock, given: Any) -> None:
    with pytest.raises(ConfigError, match="queue"):
        app.worker(given)


async def test_a_task_is_no_queue_and_slots_go_into_a_mapping(app: Penstock) -> None:
    @app.task
    async def tidy(number: int) -> None: ...

    with pytest.raises(ConfigError, match="a queue, some of them, or their slots"):
        app.worker(tidy)  # type: ignore[arg-type]
    for given in ("emails:5", ["emails:5"]):
        with pytest.raises(ConfigError, match=r"slots in a mapping: \{'emails': 5\}"):
            app.worker(given)
    app.worker({"emails:5": 5})  # a queue of this very name


async def test_an_app_without_tasks_serves_default(app: Penstock) -> None:
    async with app.worker() as worker:
        assert list(worker.states) == ["default"]
