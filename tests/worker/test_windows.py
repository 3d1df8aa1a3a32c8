"""A worker keeps to the hours of queues and lanes, and hears of changes at once."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Penstock, Windows
from tests.fixtures.until import until
from tests.fixtures.worker import reaches, worker_of

pytestmark = pytest.mark.any_pooler

# Where nothing is looked for unasked, only what was told or is due can be the reason.
DEAF = {"rescan": 3600, "poll": 3600}


def closed_now() -> Windows:
    """A window of an hour that opens in two."""
    start = datetime.now(UTC) + timedelta(hours=2)
    return Windows(f"{start:%H:%M}-{start + timedelta(hours=1):%H:%M}")


async def set_exactly(connection: asyncpg.Connection, start: datetime, end: datetime) -> None:
    """Windows of the queue `imports` to the microsecond, as only SQL can set them."""
    windows = {"open": [{"from": f"{start:%H:%M:%S.%f}", "to": f"{end:%H:%M:%S.%f}"}]}
    await connection.execute(
        "INSERT INTO penstock.queue (name, windows) VALUES ('imports', $1)", json.dumps(windows)
    )


@pytest.fixture
def note(app: Penstock) -> Any:
    @app.task(name="note", queue="imports")
    async def note(text: str = "") -> str:
        return text

    return note


@pytest.mark.told
async def test_queue_outside_its_hours_waits_until_it_is_opened(app: Penstock, note: Any) -> None:
    await app.set_queue("imports", windows=closed_now())
    async with worker_of(app, ["imports", "other"], **DEAF):
        held = await app.enqueue(note, "held")
        await app.wait(await app.enqueue(note.options(queue="other")), timeout=30)
        assert (await app.get(held)).state == "ready"
        await app.set_queue("imports", windows=None)
        assert await app.wait(held, timeout=30) == "held"


@pytest.mark.told
async def test_a_lane_outside_of_its_hours_or_paused_is_passed_by(app: Penstock, note: Any) -> None:
    await app.set_queue("imports", fair=True)
    await app.set_lane("imports", "night", windows=closed_now())
    await app.set_lane("imports", "stopped", paused=True)
    async with worker_of(app, {"imports": 1}, **DEAF):
        held = [
            await app.enqueue(note.options(tenant=name), name)
            for name in ("night", "stopped")
            for _ in range(3)
        ]
        await app.wait(await app.enqueue(note.options(tenant="acme")), timeout=30)
        assert {(await app.get(job)).state for job in held} == {"ready"}
        await app.set_lane("imports", "night", windows=None)
        await app.set_lane("imports", "stopped", paused=False)
        for job in held:
            await app.wait(job, timeout=30)


@pytest.mark.told
async def test_a_window_opens_by_the_clock(
    app: Penstock, note: Any, connection: asyncpg.Connection
) -> None:
    now = await connection.fetchval("SELECT clock_timestamp()")
    await set_exactly(connection, now + timedelta(seconds=1), now + timedelta(hours=1))
    async with worker_of(app, "imports", **DEAF):
        done = await reaches(app, await app.enqueue(note, "on time"), "completed")
    assert done.attempted_at is not None
    assert done.attempted_at >= now + timedelta(seconds=1)


@pytest.mark.told
async def test_a_window_closes_by_the_clock(
    app: Penstock, note: Any, connection: asyncpg.Connection
) -> None:
    now = await connection.fetchval("SELECT clock_timestamp()")
    await set_exactly(connection, now - timedelta(hours=1), now + timedelta(seconds=1))

    async def is_closed() -> bool:
        return await connection.fetchval(
            "SELECT NOT w.open FROM penstock.queue AS q, "
            "penstock.check_windows_v1(q.windows, clock_timestamp() - interval '0.5 s') AS w"
        )

    async with worker_of(app, ["imports", "other"], **DEAF):
        await until(is_closed, what="the window to have closed")
        late = await app.enqueue(note, "late")
        await app.wait(await app.enqueue(note.options(queue="other")), timeout=30)
        assert (await app.get(late)).state == "ready"
