"""A queue in a schema of another name, beside the first."""

import asyncio

import pytest

from penstock import Penstock
from tests.fixtures.database import Database
from tests.fixtures.worker import worker_of

pytestmark = pytest.mark.any_pooler


@pytest.mark.told
async def test_two_queues_in_one_database_know_nothing_of_each_other(
    app: Penstock, database: Database
) -> None:
    """Their jobs, notifications, signals and leaders are their own."""
    other = Penstock(database.url, schema='Second "queue"', listen_url=database.direct_url)
    await other.migrate()
    started, stopped = asyncio.Event(), asyncio.Event()

    def register(each: Penstock, answer: str) -> None:
        @each.task(name="note")
        async def note() -> str:
            return answer

        @each.task(name="endless")
        async def endless() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    register(app, "first")
    register(other, "second")
    quiet = {"rescan": 3600, "poll": 3600, "promote_most": 3600}
    async with other, worker_of(app, **quiet), worker_of(other, **quiet):
        for each, answer in ((app, "first"), (other, "second")):
            note = each.tasks.get("note")
            assert await each.wait(await each.enqueue(note), timeout=30) == answer
            assert (
                await each.wait(await each.enqueue(note.options(delay=0.1)), timeout=30) == answer
            )
        running = await other.enqueue(other.tasks.get("endless"))
        await started.wait()
        await other.cancel(running)
        await asyncio.wait_for(stopped.wait(), 30)
    assert {job.result for job in (await app.list()).jobs} == {"first"}
