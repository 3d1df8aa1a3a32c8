"""Tests that do not await have the same tools."""

from collections.abc import Iterator

import psycopg
import pytest

import penstock.testing
from penstock import Context, Penstock
from penstock.testing import led_to, sync
from penstock.testing.sync import (
    advance,
    advance_to,
    assert_enqueued,
    assert_nothing_enqueued,
    attempt,
    drain,
    enqueued,
    run,
)
from tests.fixtures.app import loop_of
from tests.fixtures.database import Database

shop = Penstock()


@shop.task(name="charge")
def charge(order: int) -> int:
    return order * 2


@shop.task(name="fail")
async def fail(ctx: Context) -> None:
    raise OSError("away")


@pytest.fixture
def app(database: Database) -> Iterator[Penstock]:
    with led_to(shop, database.url) as app:
        yield app


def test_a_blocking_test_drains_and_asserts(app: Penstock) -> None:
    job = app.sync.enqueue(charge, 21)
    assert_enqueued(app, charge, {"order": 21})
    assert [waiting.id for waiting in enqueued(app)] == [job.id]
    assert drain(app).completed == 1
    assert app.sync.wait(job) == 42
    assert_nothing_enqueued(app)


def test_drain_and_advance_leave_the_app_as_they_found_it(
    app: Penstock, database: Database
) -> None:
    with psycopg.connect(database.url) as connection:
        app.sync.inside(connection).enqueue(charge, 21)
    assert drain(app).completed == 1
    assert loop_of(app) is None
    advance(app, seconds=1)
    assert loop_of(app) is None
    app.sync.enqueue(charge, 21)
    loop = loop_of(app)
    assert drain(app).completed == 1
    advance(app, seconds=1)
    assert loop_of(app) is loop is not None


def test_time_passes_for_a_blocking_test(app: Penstock) -> None:
    job = app.sync.enqueue(charge.options(delay=60), 1)
    advance(app, seconds=30)
    assert drain(app).completed == 0
    advance_to(app, app.sync.get(job).run_at)
    assert drain(app).completed == 1


def test_what_a_handler_raises_reaches_a_blocking_test(app: Penstock) -> None:
    app.sync.enqueue(fail)
    with pytest.raises(OSError, match="away"):
        drain(app)


def test_an_open_transaction_is_looked_into(app: Penstock, database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        app.sync.inside(connection).enqueue(charge, 7)
        assert_enqueued(app.sync.inside(connection), charge, {"order": 7})
        assert_nothing_enqueued(app)
        connection.rollback()
    assert_nothing_enqueued(app)


def test_a_task_runs_inline_without_a_loop() -> None:
    assert run(charge, 21) == 42
    assert attempt(fail).state == "scheduled"


async def test_a_task_runs_inline_beside_a_loop() -> None:
    assert run(charge, 21) == 42


def test_whoever_does_not_await_finds_every_name() -> None:
    assert sorted(sync.__all__) == sorted(penstock.testing.__all__)
    assert all(hasattr(sync, name) for name in sync.__all__)


def test_an_app_is_said_to_be_for_tests_without_awaiting(database: Database) -> None:
    app = Penstock(database.url)
    app.include(charge)
    with pytest.raises(sync.NotForTests):
        sync.drain(app)
    sync.for_tests(app)
    app.sync.enqueue(charge, 21)
    assert sync.drain(app).completed == 1
    app.sync.close()


def test_a_blocking_test_runs_a_task_as_a_later_attempt() -> None:
    @shop.task(name="count")
    def count(ctx: Context) -> int:
        return ctx.attempt

    assert sync.Inline(number=3).run(count) == 3
    assert sync.Inline(number=2).attempt(count).value == 2
