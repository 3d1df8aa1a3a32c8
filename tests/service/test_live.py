"""Who watches a subject is told its whole state, whenever it changes, over server-sent events."""

import asyncio

import pytest

from penstock import Penstock, task
from penstock.tasks import Context
from tests.fixtures.live import Heard, hear, listened_to
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

_go = asyncio.Event()


@task
async def work(ctx: Context, name: str = "") -> str:
    ctx.progress(1, 4, "begun")
    await _go.wait()
    return f"done {name}"


@task
async def quick(number: int) -> int:
    return number


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    app.include(work, quick)
    _go.clear()


async def test_a_job_is_told_from_its_present_state_to_its_end(app: Penstock) -> None:
    job = await app.enqueue(work, "it")
    heard = Heard()
    async with listened_to(app) as server, worker_of(app):
        listening = asyncio.create_task(hear(f"{server.live}/job/{job.id}", heard))
        await until(lambda: heard.events and heard.last["state"]["done"] == 1)
        assert heard.last["state"]["message"] == "begun"
        _go.set()
        await listening
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.headers["cache-control"] == "no-store"
    assert heard.last["final"]
    assert heard.last["state"]["state"] == "completed"
    assert heard.last["state"]["result"] == "done it"
    assert heard.last_id == heard.last["version"]
    assert [event["final"] for event in heard.events].count(True) == 1
    moments = [int(event["version"].split("-")[0]) for event in heard.events]
    assert moments == sorted(moments)


async def test_what_was_seen_is_not_told_again(app: Penstock) -> None:
    job = await app.enqueue(work)
    async with listened_to(app) as server:
        url = f"{server.live}/job/{job.id}"
        heard = await hear(url, until=lambda heard: bool(heard.events))
        again = Heard()
        again.last_id = heard.last_id
        listening = asyncio.create_task(hear(url, again))
        await until(lambda: again.retries)
        await app.cancel(job)
        await listening
        assert again.states == ["cancelled"]
        # EventSource comes back after the end, and is told to stay away.
        assert (await hear(url, again)).status == 204
        assert len(again.events) == 1
