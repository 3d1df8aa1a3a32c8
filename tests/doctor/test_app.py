"""An app against what waits: tasks, arguments and resources."""

from penstock import Penstock, task
from penstock.doctor import Code
from tests.doctor.examined import ERROR, OK, Examined


class Model:
    """A thing that the app may not open."""


@task(name="shop.count")
async def count_text(number: str) -> None:
    """As it was when the jobs were enqueued."""


@task(name="shop.count")
async def count_numbers(number: int) -> None:
    """As it is now."""


@task(name="shop.think", resources=[Model])
async def think() -> None:
    """Needs something."""


def code(*tasks: object, resources: frozenset[str] = frozenset()) -> Code:
    app = Penstock(include=tasks)  # type: ignore[arg-type]
    return Code("shop.jobs", app.tasks, resources)


async def test_the_check_is_left_out_if_no_app_is_named(examined: Examined) -> None:
    report = await examined.report()
    assert "app" not in [result.check.name for result in report.results]


async def test_an_app_that_can_run_all_that_waits_is_fine(
    app: Penstock, examined: Examined
) -> None:
    await app.enqueue(count_numbers, 3)
    await app.enqueue(think.options(delay=60))
    [finding] = await examined(
        "app", code=code(count_numbers, think, resources=frozenset({"Model"}))
    )
    assert finding.verdict is OK
    assert "with its 2 tasks can run all that waits" in finding.seen


async def test_unknown_task_is_named_with_its_number_of_jobs(
    app: Penstock, examined: Examined
) -> None:
    first = await app.enqueue(count_text.options(queue="mail"), "three")
    await app.enqueue(count_text.options(queue="mail", delay=60), "four")
    [finding] = await examined("app", code=code())
    assert finding.verdict is ERROR
    assert "The queue mail has 2 jobs of the task shop.count" in finding.seen
    assert finding.paste == (f"penstock jobs show {first.id}",)


async def test_unfit_arguments_are_found_before_the_deploy(
    app: Penstock, examined: Examined
) -> None:
    await app.enqueue(count_numbers, 3)
    bad = await app.enqueue(count_text, "three")
    [finding] = await examined("app", code=code(count_numbers))
    assert finding.verdict is ERROR
    assert f"Job {bad.id} cannot be run" in finding.seen
    assert "number" in finding.seen


async def test_a_resource_that_the_app_does_not_open_is_named(examined: Examined) -> None:
    [finding] = await examined("app", code=code(think))
    assert finding.verdict is ERROR
    assert "shop.think needs Model" in finding.seen
