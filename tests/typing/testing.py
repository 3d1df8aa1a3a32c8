"""What type checkers must accept of penstock.testing, and what they must refuse.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from datetime import UTC, datetime, timedelta
from typing import assert_type
from unittest.mock import ANY

from penstock import Context, Job, Penstock, Snooze, Tally
from penstock.testing import (
    Inline,
    Ran,
    Told,
    advance,
    advance_to,
    assert_enqueued,
    assert_nothing_enqueued,
    attempt,
    drain,
    enqueued,
    faults,
    led_to,
    run,
    sync,
)

app = Penstock()


class Mailer: ...


@app.task
async def charge(ctx: Context, order: int, *, again: bool = False) -> str:
    return "charged"


@app.task
def poll(operation: int) -> str | Snooze:
    return Snooze(5)


async def inline() -> None:
    assert_type(await run(charge, 42, again=True), str)
    assert_type(await run(poll, 1), str | Snooze)
    ran = await attempt(charge.options(tenant="acme"), 42)
    assert_type(ran, Ran[str])
    assert_type(ran.result, str)
    assert_type(ran.progress, tuple[Told, ...])
    assert_type(ran.delay, float)
    assert_type(await Inline(number=2, resources={Mailer: Mailer()}).run(charge, 42), str)
    assert_type(await Inline(app=app).attempt(poll, 1), Ran[str | Snooze])

    await run(charge, "42")  # type: ignore[arg-type]
    await run(charge)  # type: ignore[call-arg]
    await run(charge, 42, number=2)  # type: ignore[call-arg]
    Inline(resource={})  # type: ignore[call-arg]


async def draining() -> None:
    assert_type(await drain(app), Tally)
    await drain(app, queues=["mail"], slots=10, scheduled=True, twice=True, limit=10)
    await drain(app, raises=False, faults=[faults.Raise(charge, OSError(), call=2, at="end")])
    await drain(app, faults=[faults.TimeOut(poll), faults.Cancel(charge), faults.ShutDown(poll)])
    await drain(app, faults=[faults.LoseWorker(poll, at="start"), faults.LoseConnection(charge)])

    await drain(app, faults=[faults.Raise(charge, "error")])  # type: ignore[arg-type]
    await drain(app, faults=[faults.TimeOut(charge, at="middle")])  # type: ignore[arg-type]
    await drain("app")  # type: ignore[arg-type]


async def jobs() -> None:
    assert_type(await enqueued(app, charge, {"order": ANY}, queue="mail"), list[Job])
    assert_type(await assert_enqueued(app, charge, count=2, delay=timedelta(hours=1)), list[Job])
    await assert_enqueued(app.inside(object()), "shop.charge", tags=["a"], run_at=datetime.now(UTC))
    assert_type(await assert_nothing_enqueued(app), None)

    await assert_enqueued(app, charge, order=42)  # type: ignore[call-arg]
    await assert_enqueued(app, charge, queue=5)  # type: ignore[arg-type]


async def time() -> None:
    await advance(app, timedelta(hours=1))
    await advance(app, days=1, hours=2, minutes=3, seconds=4.5)
    await advance_to(app, datetime.now(UTC))

    await advance(app, 5)  # type: ignore[arg-type]
    await advance(app, weeks=5)  # type: ignore[call-arg]


def blocking() -> None:
    with led_to(app, "postgresql://localhost/test") as led:
        assert_type(led, Penstock)
    assert_type(sync.run(charge, 42), str)
    assert_type(sync.attempt(charge, 42), Ran[str])
    assert_type(sync.drain(app, scheduled=True), Tally)
    assert_type(sync.assert_enqueued(app, charge, {"order": 1}, count=1), list[Job])
    assert_type(sync.enqueued(app.sync.inside(object())), list[Job])
    sync.assert_nothing_enqueued(app, queue="mail")
    sync.advance(app, hours=1)
    sync.advance_to(app, datetime.now(UTC))

    sync.run(charge, "42")  # type: ignore[arg-type]
    sync.drain(app, twice="yes")  # type: ignore[arg-type]
    sync.assert_enqueued(app, charge, que="mail")  # type: ignore[call-arg]
