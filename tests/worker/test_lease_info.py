"""What a worker tells of itself in its lease, for people who look."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

pytestmark = pytest.mark.any_pooler


class Model:
    """A thing that takes its time to open."""


async def info(connection: asyncpg.Connection) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(await connection.fetchval("SELECT info FROM penstock.lease"))
    return told


async def test_a_worker_says_what_it_serves_and_which_version_it_is(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task(name="greet")
    async def greet() -> None: ...

    async with worker_of(app, {"mail": 3}):
        told = await info(connection)
    assert (told["queues"], told["tasks"]) == ({"mail": 3}, ["greet"])
    assert told["penstock"] == version("penstock")
    assert told["missing_resources"] == {}


@pytest.mark.told
async def test_a_worker_says_when_it_hears_of_new_jobs(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    async def hears() -> bool:
        heard: bool = (await info(connection))["hears"]
        return heard

    async with worker_of(app):
        await until(hears, what="the heartbeat to tell that the worker listens")


async def test_lease_names_a_missing_resource_until_it_opens(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    works = False

    @app.resource
    @asynccontextmanager
    async def model() -> AsyncIterator[Model]:
        if not works:
            raise ConnectionError("the model server\0 is down")
        yield Model()

    async def missing() -> dict[str, str]:
        told: dict[str, str] = (await info(connection))["missing_resources"]
        return told

    async def none_missing() -> bool:
        return not await missing()

    async with worker_of(app, resources_retry=0.05):
        assert await missing() == {"Model": "ConnectionError: the model server\ufffd is down"}
        works = True
        await until(none_missing, what="the heartbeat to tell that it is open")


async def test_a_resource_that_takes_for_ever_is_named_too(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.resource
    @asynccontextmanager
    async def model() -> AsyncIterator[Model]:
        await until(lambda: False, 60)
        yield Model()

    async with worker_of(app, resources_wait=0.05):
        told = await info(connection)
    assert told["missing_resources"] == {"Model": "it is still being opened"}


async def test_a_worker_names_the_job_that_it_runs_alone_while_it_does(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def walk() -> None:
        await go_on.wait()

    async def tells(alone: str | None) -> bool:
        return bool((await info(connection))["alone"] == alone)

    lost = await app.enqueue(walk)
    await connection.execute("UPDATE penstock.job SET suspect = true")
    async with worker_of(app):
        await until(lambda: tells(lost.id), what="the heartbeat to name the job")
        go_on.set()
        await until(lambda: tells(None), what="the heartbeat to tell that it is over")
