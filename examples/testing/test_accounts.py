"""What a team would test of its jobs."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from accounts import Mailer, app, thank, transfer
from outbox import Outbox, outbox

from penstock import NotRetryable, Penstock
from penstock.testing import (
    Inline,
    advance,
    assert_enqueued,
    assert_nothing_enqueued,
    drain,
    faults,
)


@pytest_asyncio.fixture
async def accounts(penstock_app: Penstock) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(app.url)
    await connection.execute("INSERT INTO account VALUES ('ada', 100), ('bob', 0)")
    yield connection
    await connection.close()


async def balances(accounts: asyncpg.Connection) -> dict[str, int]:
    return dict(await accounts.fetch("SELECT name, balance FROM account"))


async def test_money_moves_and_thanks_follow_an_hour_later(accounts: asyncpg.Connection) -> None:
    await app.enqueue(transfer, "ada", "bob", 30)
    await drain(app)
    assert await balances(accounts) == {"ada": 70, "bob": 30}
    await assert_enqueued(app, thank, {"name": "ada", "amount": 30}, delay=3600, count=1)
    assert not outbox.mails
    await advance(app, hours=1)
    await drain(app)
    assert list(outbox.mails.values()) == ["ada: Thank you for the 30, ada."]


async def test_what_nobody_has_is_not_moved(accounts: asyncpg.Connection) -> None:
    job = await app.enqueue(transfer, "bob", "ada", 30)
    with pytest.raises(NotRetryable, match="bob does not have 30"):
        await drain(app)
    assert (await app.get(job)).reason == "discarded"
    assert await balances(accounts) == {"ada": 100, "bob": 0}
    await assert_nothing_enqueued(app)


async def test_jobs_bear_a_second_delivery(accounts: asyncpg.Connection) -> None:
    await app.enqueue(transfer, "ada", "bob", 30)
    await drain(app, twice=True, scheduled=True)
    assert await balances(accounts) == {"ada": 70, "bob": 30}
    assert (outbox.calls, len(outbox.mails)) == (2, 1)


@pytest.mark.parametrize(
    "fault",
    [
        faults.Raise(transfer, ConnectionError("The network is away.")),
        faults.TimeOut(transfer),
        faults.ShutDown(transfer),
        faults.LoseWorker(transfer, at="start"),
        faults.LoseConnection(transfer),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_money_moves_once_whatever_happens(
    accounts: asyncpg.Connection, fault: faults.Fault
) -> None:
    await app.enqueue(transfer, "ada", "bob", 30)
    await drain(app, faults=[fault], scheduled=True)
    assert await balances(accounts) == {"ada": 70, "bob": 30}


async def test_thanks_alone_without_a_database() -> None:
    fake = Outbox()
    await Inline(resources={Mailer: fake}).run(thank, "ada", 30)
    assert list(fake.mails.values()) == ["ada: Thank you for the 30, ada."]
