"""What type checkers must accept of tasks, and what they must refuse.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar, assert_type, overload

from penstock.backoff import Exponential, Fixed
from penstock.outcome import Snooze
from penstock.tasks import (
    AsyncContextTask,
    AsyncTask,
    Budget,
    Context,
    Request,
    SyncContextTask,
    SyncTask,
    Task,
    TaskDecorator,
    Unique,
    task,
)

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Page:
    url: str


@task
async def fetch(url: str, *, depth: int = 1) -> Page:
    return Page(url)


@task
def size(page: Page) -> int:
    return len(page.url)


@task(queue="bulk", timeout=timedelta(minutes=5), retry=Fixed(5), discard_on=(ValueError,))
async def index(ctx: Context, page: Page, *, again: bool = False) -> None:
    ctx.progress(1, 2, "halfway")
    assert_type(ctx.resource(Page), Page)
    assert_type(ctx.job.attempt, int)


@task(limits=("openai", "account:{account}"))
async def answer(ctx: Context, account: str) -> float:
    await ctx.close_bucket("openai", timedelta(seconds=5))
    async with ctx.budget("openai", units=1200, wait=5) as budget:
        assert_type(budget, Budget)
        budget.settle(40)
        return budget.units


@task
def summarise(ctx: Context) -> float:
    ctx.sync.close_bucket("openai", 5)
    with ctx.sync.budget("openai", units=1200) as budget:
        return budget.units


@task(name="poll", max_attempts=3, retry=Exponential(base=60, cap=3600))
def poll(ctx: Context, operation: int) -> str | Snooze:
    return Snooze(5) if ctx.cancelled else "done"


@task
async def tick() -> None: ...


@task
def only_context(ctx: Context) -> None: ...


# How a decorated function is called


async def called(ctx: Context, page: Page) -> None:
    assert_type(await fetch("https://a.b", depth=2), Page)
    await assert_type(fetch("https://a.b"), Coroutine[Any, Any, Page])
    assert_type(size(page), int)
    assert_type(await index(ctx, page, again=True), None)
    assert_type(poll(ctx, 1), str | Snooze)
    only_context(ctx)
    await tick()

    await fetch(5)  # type: ignore[arg-type]
    await fetch("https://a.b", deep=2)  # type: ignore[call-arg]
    size("page")  # type: ignore[arg-type]
    await index(page)  # type: ignore[call-arg,arg-type]
    poll(1)  # type: ignore[call-arg,arg-type]
    only_context()  # type: ignore[call-arg]


# What becomes of a decorated function


def kinds(fetch: AsyncTask[..., Page], size: SyncTask[..., int]) -> None:
    accepted: list[Task[..., object]] = [fetch, size, index, poll, tick, only_context]
    asynchronous: AsyncContextTask[..., None] = index
    synchronous: SyncContextTask[..., str | Snooze] = poll
    wrong: SyncTask[..., Any] = tick  # type: ignore[assignment]
    print(accepted, asynchronous, synchronous, wrong)


# Arguments are checked before they are stored; the context is not one of them


def prepared(page: Page) -> None:
    assert_type(fetch.prepare("https://a.b"), Request[Page])
    assert_type(fetch.prepare(url="https://a.b", depth=3), Request[Page])
    assert_type(size.prepare(page), Request[int])
    assert_type(index.prepare(page, again=True), Request[None])
    assert_type(poll.prepare(1), Request[str | Snooze])
    assert_type(tick.prepare(), Request[None])
    assert_type(only_context.prepare(), Request[None])

    fetch.prepare()  # type: ignore[call-arg]
    fetch.prepare(5)  # type: ignore[arg-type]
    fetch.prepare("https://a.b", 2)  # type: ignore[call-arg]
    fetch.prepare("https://a.b", depth="2")  # type: ignore[arg-type]
    size.prepare("page")  # type: ignore[arg-type]
    tick.prepare(1)  # type: ignore[call-arg]
    poll.prepare("one")  # type: ignore[arg-type]


def prepared_with_context(ctx: Context, page: Page) -> None:
    index.prepare(ctx, page)  # type: ignore[call-arg,arg-type]
    poll.prepare(ctx)  # type: ignore[arg-type]
    only_context.prepare(ctx)  # type: ignore[call-arg]


# Options keep the type


def with_options(page: Page) -> None:
    later = index.options(delay=5, tenant="acme", tags=["a"], meta={"trace": "x"})
    assert_type(later.prepare(page), Request[None])
    assert_type(fetch.options(run_at=datetime.now(UTC)).prepare("https://a.b"), Request[Page])
    fetch.options(delay=timedelta(hours=1), timeout=None, retry=Fixed(1), deadline=None)

    later.prepare(5)  # type: ignore[arg-type]
    fetch.options(priority="high")  # type: ignore[arg-type]
    fetch.options(retries=3)  # type: ignore[call-arg]


def with_settings() -> None:
    task(queue="bulk", args_version=2, upcasters={1: lambda old: old}, resources=(Page,))
    task(retries=3)  # type: ignore[call-overload]
    task(queue=5)  # type: ignore[call-overload]


# Handlers without types are accepted, with nothing to check


@task
def loose(value: Any, other: int) -> int:
    return other


@task
async def of_object(value: object) -> int:
    return 1


def prepared_loosely() -> None:
    loose.prepare([1], 2)
    loose.prepare(value=[1], other=2)
    of_object.prepare([1])
    of_object.prepare(value=[1])


# Unique jobs


@task(unique=Unique(args=["document"], keep=60, on_conflict="supersede"))
async def reindex(document: int, text: str) -> None: ...


def ruled() -> None:
    reindex.options(unique=Unique(key="document:{document}", period=timedelta(hours=1)))
    reindex.options(unique=True)
    reindex.options(unique=None)

    reindex.options(unique="document")  # type: ignore[arg-type]
    Unique(hold="running")  # type: ignore[arg-type]
    Unique(on_conflict="ignore")  # type: ignore[arg-type]
    Unique("key")  # type: ignore[call-arg]


# An app can pass the types on


@overload
def enqueue(what: Request[T], /) -> T: ...
@overload
def enqueue(what: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
def enqueue(what: Any, /, *args: Any, **kwargs: Any) -> Any: ...


class App:
    def __init__(self) -> None:
        self.task = TaskDecorator()


app = App()


@app.task(queue="mail")
async def send(ctx: Context, address: str) -> int:
    return 1


def enqueued(page: Page) -> None:
    assert_type(enqueue(send, "a@b"), int)
    assert_type(enqueue(send.options(delay=5), address="a@b"), int)
    assert_type(enqueue(send.prepare("a@b")), int)
    assert_type(enqueue(size, page), int)
    assert_type(enqueue(tick), None)

    enqueue(send, 5)  # type: ignore[call-overload]
    enqueue(send)  # type: ignore[call-overload]
    enqueue(size, "page")  # type: ignore[call-overload]
