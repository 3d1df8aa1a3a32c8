"""Handlers use the ORM as views do."""

import asyncio
from typing import Any

import pytest
from django.db import connection, connections

from penstock.integrations.django import DjangoPenstock, enqueue, enqueue_many
from tests.django.bakery.jobs import (
    backend_of_coroutine,
    backend_of_thread,
    bake,
    bake_async,
    bake_once,
    meet,
)
from tests.django.bakery.models import Bread
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

ALONE = """
SELECT count(*) = 0 FROM pg_stat_activity
 WHERE datname = current_database() AND pid NOT IN ($1, pg_backend_pid())
"""
CUT = "SELECT pg_terminate_backend($1)"
AGES = [{"CONN_MAX_AGE": 0}, {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}]


def asked(sql: str, *params: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()[0]


def expect_no_connection_left(database: Database, own: int) -> None:
    """But for our own: one that was closed is gone a moment later."""

    async def look() -> None:
        async with database.connect() as connection:
            await until(lambda: connection.fetchval(ALONE, own), what="connections to be closed")

    asyncio.run(look())


@pytest.mark.parametrize("task", [bake, bake_async], ids=lambda task: task.__name__)
def test_a_handler_stores_what_it_makes(app: DjangoPenstock, work: Any, task: Any) -> None:
    job = enqueue(task, "rye")
    work()
    assert app.sync.get(job).result == Bread.objects.get(name="rye").pk


def test_a_handler_stores_what_it_makes_with_the_end_of_its_job(
    app: DjangoPenstock, work: Any
) -> None:
    job = enqueue(bake_once, "rye")
    tally = work()
    assert (tally.completed, tally.failed) == (1, 0)
    assert app.sync.get(job).result == "rye"
    assert Bread.objects.get().name == "rye"


def test_async_handlers_have_a_thread_each(app: DjangoPenstock, work: Any) -> None:
    enqueue_many([meet.prepare(), meet.prepare()])
    assert work().completed == 2


@pytest.mark.parametrize("task", [backend_of_thread, backend_of_coroutine])
def test_no_connection_is_left_behind(
    app: DjangoPenstock, work: Any, task: Any, database: Database
) -> None:
    job = enqueue(task)
    own = asked("SELECT pg_backend_pid()")
    work()
    assert app.sync.get(job).result != own
    expect_no_connection_left(database, own)


def test_connections_are_kept_as_long_as_the_project_says(app: DjangoPenstock, work: Any) -> None:
    connections.settings["default"]["CONN_MAX_AGE"] = None
    jobs = [enqueue(backend_of_thread) for _ in range(3)]
    work("default", slots=1)
    assert len({app.sync.get(job).result for job in jobs}) == 1


@pytest.mark.parametrize("age", AGES, ids=["closed after each job", "kept"])
@pytest.mark.parametrize("task", [backend_of_thread, backend_of_coroutine])
def test_next_job_gets_a_new_connection_after_one_was_cut(
    app: DjangoPenstock, database: Database, task: Any, age: dict[str, Any]
) -> None:
    connections.settings["default"].update(age)

    async def cut_between() -> tuple[int, int]:
        async with app, worker_of(app, {"default": 1}), database.connect() as other:
            first = await app.wait(await app.enqueue(task), timeout=30)
            await other.execute(CUT, first)
            return first, await app.wait(await app.enqueue(task), timeout=30)

    first, second = asyncio.run(cut_between())
    assert first != second


def test_what_users_call_directly_leaves_their_connection_alone(app: DjangoPenstock) -> None:
    before = asked("SELECT pg_backend_pid()")
    assert backend_of_thread() == before
    assert asked("SELECT pg_backend_pid()") == before


def test_calls_of_a_local_pool_use_the_orm_too(app: DjangoPenstock, database: Database) -> None:
    async def bake_spelt() -> None:
        await Bread.objects.acreate(name="spelt")

    pool = app.local_pool()
    own = asked("SELECT pg_backend_pid()")
    pool.submit(Bread.objects.create, name="rye")
    pool.submit(bake_spelt)
    app.sync.close()
    assert (pool.counts.done, pool.counts.submitted) == (2, 2)
    assert {bread.name for bread in Bread.objects.all()} == {"rye", "spelt"}
    expect_no_connection_left(database, own)
