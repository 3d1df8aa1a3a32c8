"""What waits can be asserted, and a failure shows what is there."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from unittest.mock import ANY

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.testing import assert_enqueued, assert_nothing_enqueued, enqueued


@dataclass
class Book:
    title: str
    pages: int = 100


@pytest.fixture
def shop(app: Penstock) -> "Shop":
    return Shop(app)


class Shop:
    """An app with two tasks."""

    def __init__(self, app: Penstock) -> None:
        self.app = app

        @app.task(name="invoice", queue="mail")
        async def invoice(ctx: Context, order: int, copies: int = 1) -> None: ...

        @app.task(name="index")
        async def index(book: Book) -> None: ...

        self.invoice, self.index = invoice, index


async def test_a_job_is_found_by_task_and_some_of_its_arguments(shop: Shop) -> None:
    job = await shop.app.enqueue(shop.invoice, 42)
    await shop.app.enqueue(shop.invoice, 43)
    [found] = await assert_enqueued(shop.app, shop.invoice, {"order": 42})
    assert found.id == job.id
    await assert_enqueued(shop.app, shop.invoice, {"order": 43, "copies": 1})
    await assert_enqueued(shop.app, "invoice", {"order": 43})
    await assert_enqueued(shop.app)


async def test_arguments_are_compared_as_the_handler_gets_them(shop: Shop) -> None:
    await shop.app.enqueue(shop.index, Book("Emma"))
    await assert_enqueued(shop.app, shop.index, {"book": Book("Emma", 100)})
    await assert_enqueued(shop.app, shop.index, {"book": ANY})
    await assert_nothing_enqueued(shop.app, shop.index, {"book": Book("Ulysses")})


async def test_a_job_is_found_by_its_options(shop: Shop) -> None:
    due = datetime.now(UTC) + timedelta(days=3)
    chosen = shop.index.options(
        queue="slow",
        priority=5,
        tenant="acme",
        subject="book:1",
        requested_by="ada",
        tags=["b", "a"],
        meta={"from": "test"},
        max_attempts=2,
        timeout=timedelta(minutes=1),
        run_at=due,
        deadline=due,
    )
    await shop.app.enqueue(chosen, Book("Emma"))
    await assert_enqueued(
        shop.app,
        shop.index,
        queue="slow",
        priority=5,
        tenant="acme",
        subject="book:1",
        requested_by="ada",
        tags=["a", "b"],
        meta={"from": "test"},
        max_attempts=2,
        timeout=timedelta(minutes=1),
        run_at=due,
        deadline=due,
        count=1,
    )
    await assert_nothing_enqueued(shop.app, shop.index, tenant="other")


async def test_a_delay_is_compared_with_when_the_job_was_made(shop: Shop) -> None:
    await shop.app.enqueue(shop.index.options(delay=3600.25), Book("Emma"))
    await assert_enqueued(shop.app, shop.index, delay=timedelta(hours=1, milliseconds=250))
    await assert_enqueued(shop.app, shop.index, delay=3600.25)
    await assert_nothing_enqueued(shop.app, shop.index, delay=0)
    await assert_nothing_enqueued(shop.app, shop.index, delay=3601)


async def test_how_often_is_counted(shop: Shop) -> None:
    await shop.app.enqueue_many(shop.invoice.prepare(order) for order in (1, 1, 2))
    assert len(await assert_enqueued(shop.app, shop.invoice, count=3)) == 3
    await assert_enqueued(shop.app, shop.invoice, {"order": 1}, count=2)
    with pytest.raises(AssertionError, match=r"Expected 1 times a job of invoice with order=1; f"):
        await assert_enqueued(shop.app, shop.invoice, {"order": 1}, count=1)
    await assert_enqueued(shop.app, shop.index, count=0)


async def test_a_failure_shows_what_waits_nearest_first(shop: Shop) -> None:
    await shop.app.enqueue(shop.index, Book("Emma"))
    await shop.app.enqueue(shop.invoice.options(tenant="acme"), 41)
    await shop.app.enqueue(shop.invoice, 42)
    with pytest.raises(AssertionError) as failed:
        await assert_enqueued(shop.app, shop.invoice, {"order": 42}, queue="mail", tenant="acme")
    assert str(failed.value).splitlines() == [
        "Expected a job of invoice with order=42, queue='mail', tenant='acme'; found none. "
        "3 jobs wait, nearest first:",
        "  2: invoice(order=41), ready in mail – order is 41",
        "  3: invoice(order=42), ready in mail – tenant is ''",
        "  1: index(book={'pages': 100, 'title': 'Emma'}), ready in default – its task is index",
    ]


async def test_a_failure_on_an_empty_queue_says_so(shop: Shop) -> None:
    with pytest.raises(AssertionError, match=r"found none\. No job waits\."):
        await assert_enqueued(shop.app, shop.invoice)


async def test_a_long_list_is_cut(shop: Shop) -> None:
    await shop.app.enqueue_many(shop.invoice.prepare(order) for order in range(15))
    with pytest.raises(AssertionError, match="… and 5 more"):
        await assert_nothing_enqueued(shop.app)


async def test_nothing_means_nothing(shop: Shop) -> None:
    await assert_nothing_enqueued(shop.app)
    await shop.app.enqueue(shop.invoice, 42)
    with pytest.raises(AssertionError, match=r"Expected no job. 1 job waits, nearest first:\n  1:"):
        await assert_nothing_enqueued(shop.app)


async def test_what_has_run_or_was_cancelled_does_not_wait(shop: Shop) -> None:
    await shop.app.cancel(await shop.app.enqueue(shop.invoice, 1))
    await shop.app.enqueue(shop.index, Book("Emma"))
    await shop.app.worker().drain()
    assert await enqueued(shop.app) == []


async def test_jobs_come_oldest_first_and_all_of_them(shop: Shop) -> None:
    await shop.app.enqueue_many(shop.invoice.prepare(order) for order in range(1500))
    jobs = await enqueued(shop.app, shop.invoice)
    assert [job.args["order"] for job in jobs] == list(range(1500))


async def test_an_open_transaction_s_jobs_are_seen_inside_it(
    shop: Shop, connection: asyncpg.Connection
) -> None:
    async with connection.transaction():
        await shop.app.inside(connection).enqueue(shop.invoice, 42)
        await assert_enqueued(shop.app.inside(connection), shop.invoice, {"order": 42})
        await assert_nothing_enqueued(shop.app)


async def test_a_slip_of_the_test_is_told_apart_from_a_failure(shop: Shop) -> None:
    with pytest.raises(TypeError, match="has no parameter 'oder'; its parameters: copies, order"):
        await assert_enqueued(shop.app, shop.invoice, {"oder": 42})
    with pytest.raises(TypeError, match="A job has no 'que' to compare"):
        await assert_enqueued(shop.app, shop.invoice, que="mail")  # type: ignore[call-arg]


async def test_jobs_of_an_older_version_of_the_task_are_lifted(app: Penstock) -> None:
    @app.task(name="index")
    async def old(title: str) -> None: ...

    await app.enqueue(old, "Emma")
    newer = Penstock(app.url)

    @newer.task(name="index", args_version=2, upcasters={1: lambda args: {"name": args["title"]}})
    async def new(name: str) -> None: ...

    await assert_enqueued(app, new, {"name": "Emma"})
