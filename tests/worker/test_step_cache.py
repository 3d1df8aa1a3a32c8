"""Results of steps that jobs share: by name, code and arguments, within a tenant."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Cache, Context, Penstock
from penstock.errors import ConfigError
from tests.fixtures.worker import worker_of

pytestmark = pytest.mark.any_pooler

CALLS: list[str] = []


def embed(text: str, size: int = 2) -> list[float]:
    CALLS.append(text)
    return [float(len(text))] * size


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


async def test_jobs_of_a_tenant_share_a_result(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    async def index(ctx: Context, text: str, by_name: bool = False) -> list[float]:
        if by_name:
            return await ctx.step("embed", embed, text=text, size=2, cache=Cache())
        return await ctx.step("embed", embed, text, cache=Cache())

    async with worker_of(app):
        for text, by_name in [("a", False), ("a", True), ("bb", False), ("a", False)]:
            job = await app.enqueue(index, text, by_name)
            assert await app.wait(job, 30) == [float(len(text))] * 2
        assert CALLS == ["a", "bb"]
        for tenant in ("acme", "globex", "acme"):
            await app.wait(await app.enqueue(index.options(tenant=tenant), "a"), 30)
        assert CALLS == ["a", "bb", "a", "a"]
    sizes = await connection.fetch("SELECT size FROM penstock.step_cache ORDER BY created_at")
    assert [row["size"] for row in sizes] == [10, 10, 10, 10]


async def test_another_version_or_name_is_another_result(app: Penstock) -> None:
    @app.task
    async def index(ctx: Context, name: str, version: str | None) -> None:
        await ctx.step(name, embed, "a", cache=Cache(version=version))

    async with worker_of(app):
        for name, version in [("x", "1"), ("x", "2"), ("y", "1"), ("x", None), ("x", "1")]:
            await app.wait(await app.enqueue(index, name, version), 30)
    assert len(CALLS) == 4


async def test_a_result_is_computed_anew_when_its_time_is_over(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    async def index(ctx: Context) -> None:
        await ctx.step("embed", embed, "a", cache=Cache(ttl=timedelta(hours=1)))

    async with worker_of(app, sweep=3600.0):
        await app.wait(await app.enqueue(index), 30)
        await connection.execute("UPDATE penstock.step_cache SET expires_at = now()")
        for _ in range(2):
            await app.wait(await app.enqueue(index), 30)
    assert len(CALLS) == 2


async def test_concurrent_jobs_with_one_cache_key_get_own_results(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    both = asyncio.Barrier(2)

    @app.task
    async def index(ctx: Context, number: int) -> int:
        async def compute() -> int:
            await both.wait()
            return number

        return await ctx.step("compute", compute, cache=Cache(version=1))

    async with worker_of(app, {"default": 2}):
        jobs = [await app.enqueue(index, number) for number in (1, 2)]
        assert [await app.wait(job, 30) for job in jobs] == [1, 2]
        kept = int(await connection.fetchval("SELECT result FROM penstock.step_cache"))
        assert await app.wait(await app.enqueue(index, 3), 30) == kept


async def test_a_sync_handler_shares_too(app: Penstock) -> None:
    @app.task
    def index(ctx: Context) -> list[float]:
        return ctx.sync.step("embed", embed, "a", cache=Cache())

    async with worker_of(app):
        for _ in range(2):
            assert await app.wait(await app.enqueue(index), 30) == [1.0, 1.0]
    assert CALLS == ["a"]


def test_a_function_that_uses_what_is_around_it_needs_a_version() -> None:
    text = "a"

    def hidden() -> str:
        return text

    for fn in (hidden, [].append, len):
        with pytest.raises(ConfigError, match="plain function"):
            Cache().key("x", fn, (), {})
        assert len(Cache(version=1).key("x", fn, (), {})) == 32


def test_the_key_knows_the_code_and_the_arguments() -> None:
    def one(values: Any) -> Any:
        return {value for value in values if value in {"a", "b", "c"}}

    def two(values: Any) -> Any:
        return {value for value in values if value in {"a", "b", "d"}}

    def key(fn: Any, *args: Any, **kwargs: Any) -> bytes:
        return Cache().key("x", fn, args, kwargs)

    assert key(one, {"b": 1, "a": 2}) == key(one, values={"a": 2, "b": 1})
    assert key(one, 1) != key(two, 1)
    assert key(one, 1) != key(one, 1.0) != key(one, True)
    assert len({key(one, 1), key(one, "1"), key(one, [1]), key(one, None)}) == 4


@pytest.mark.parametrize("given", [{"ttl": 0}, {"ttl": -1}, {"version": 1.5}])
def test_a_cache_says_what_is_allowed(given: Any) -> None:
    with pytest.raises(ConfigError):
        Cache(**given)
