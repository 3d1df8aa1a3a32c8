"""A slip in a test is named, and not an error of what is below."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock import Penstock
from penstock.errors import ConfigError
from penstock.testing import NotDrained, advance, assert_enqueued, drain, faults, run
from penstock.testing import sync as blocking
from tests.fixtures.database import Database


@pytest.fixture
def charge(app: Penstock) -> Any:
    @app.task(name="charge")
    async def charge(order: int) -> int:
        return order

    return charge


async def test_arguments_are_expected_by_their_names(app: Penstock, charge: Any) -> None:
    for args in (1, 0, [1]):
        with pytest.raises(TypeError, match=r'by their names, such as \{"order": 42\}, not by'):
            await assert_enqueued(app, charge, args)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="by their task or its name"):
        await assert_enqueued(app, len)  # type: ignore[arg-type]


async def test_the_whole_queue_is_drained_not_a_transaction(app: Penstock) -> None:
    async with (await app.pool()).acquire() as connection:
        for tool in (drain, advance):
            with pytest.raises(TypeError, match="pass your app itself"):
                await tool(app.inside(connection))  # type: ignore[arg-type]


def test_blocking_tools_take_the_app_itself(database: Database) -> None:
    with pytest.raises(TypeError, match="pass your app itself"):
        blocking.drain(Penstock(database.url).sync)  # type: ignore[arg-type]


async def test_only_tasks_are_run() -> None:
    with pytest.raises(TypeError, match=r"decorate it with @app\.task"):
        await run(lambda: 1)  # type: ignore[arg-type]


SLIPS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "a name": (lambda _: faults.Raise("charge", OSError()), TypeError, "must be a task"),  # type: ignore[arg-type]
    "a text": (lambda task: faults.Raise(task, "away"), TypeError, "must be an exception"),  # type: ignore[arg-type]
    "a class": (lambda task: faults.Raise(task, OSError), TypeError, "must be an exception"),  # type: ignore[arg-type]
    "a moment": (
        lambda task: faults.Raise(task, OSError(), at="middle"),  # type: ignore[arg-type]
        ConfigError,
        "start or end",
    ),
    "a half call": (lambda task: faults.Cancel(task, call=1.5), ConfigError, "from 1 on"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_fault_is_checked_where_it_is_made(slip: str) -> None:
    shop = Penstock("postgresql://nobody@nowhere/none")
    make, kind, told = SLIPS[slip]
    with pytest.raises(kind, match=told):
        make(shop.task(name="charge")(lambda: None))


async def test_a_fault_that_never_struck_counts_the_calls(app: Penstock, charge: Any) -> None:
    await app.enqueue(charge, 1)
    with pytest.raises(NotDrained, match=r"there was 1 call\.$"):
        await drain(app, faults=[faults.Cancel(charge, call=2)])


async def test_blocking_tools_in_a_loop_say_what_to_import(app: Penstock) -> None:
    for tool in (blocking.drain, blocking.advance, blocking.enqueued):
        with pytest.raises(RuntimeError, match=r"Import it from penstock\.testing, and await"):
            tool(app)
