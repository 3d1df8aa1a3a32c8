"""What type checkers must accept of steps, and what they must refuse.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from penstock import Cache, Context, Exponential, Pending, Penstock


async def fetch(url: str, *, depth: int = 1) -> bytes:
    return url.encode()


def size(page: bytes) -> int:
    return len(page)


async def look(operation: str) -> str | Pending | None:
    return operation


def look_now(operation: str) -> int | None:
    return len(operation)


async def asynchronous(ctx: Context) -> None:
    assert_type(await ctx.step("fetch", fetch, "https://a.b", depth=2), bytes)
    assert_type(await ctx.step("size", size, b""), int)
    assert_type(await ctx.step("fetch", fetch, "https://a.b", cache=Cache(ttl=60)), bytes)
    assert_type(await ctx.step("size", size, b"", cache=Cache(version="2")), int)
    assert_type(await ctx.poll("words", look, "op", every=5, most=10), str)
    assert_type(await ctx.poll("size", look_now, "op", every=Exponential(base=5), within=60), int)
    assert_type(await ctx.wait_for_event("approved", timeout=timedelta(days=1)), Any)
    await ctx.sleep(timedelta(hours=1))
    await ctx.sleep_until(datetime(2030, 1, 1, tzinfo=UTC))

    await ctx.step("fetch", fetch, 5)  # type: ignore[call-overload]
    await ctx.sleep_until(5)  # type: ignore[arg-type]


def synchronous(ctx: Context) -> None:
    assert_type(ctx.sync.step("size", size, b""), int)
    assert_type(ctx.sync.step("size", size, b"", cache=Cache()), int)
    assert_type(ctx.sync.poll("size", look_now, "op"), int)
    ctx.sync.sleep(5)


async def events(app: Penstock) -> None:
    assert_type((await app.send_event("approved", {"by": "Ada"}, keep=60)).woken, int)
    assert_type(app.sync.send_event("approved").id, str)
