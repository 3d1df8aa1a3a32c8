"""Dead letters inside a caller's transaction, whatever library began it."""

from datetime import UTC, datetime, timedelta

import asyncpg

from penstock import Penstock
from tests.drivers.callers import Caller
from tests.fixtures.dead import dead


async def test_redrive_commits_with_the_callers_transaction(
    app: Penstock, caller: Caller, connection: asyncpg.Connection
) -> None:
    first, second, third = await dead(connection, 3)
    page = await caller.transact(lambda jobs: jobs.dead_letters(task="broken", limit=2))
    assert [job.id for job in page.jobs] == [third, second]
    rest = await caller.transact(lambda jobs: jobs.dead_letters(after=page.after))
    assert [job.id for job in rest.jobs] == [first]
    done = await caller.transact(
        lambda jobs: jobs.redrive(task="broken", rate="1/min"), commit=False
    )
    assert done.number == 3
    assert (await app.dead_summary()).number == 3
    since = datetime.now(UTC) - timedelta(days=2)
    done = await caller.transact(lambda jobs: jobs.redrive(since=since, rate="1/min", limit=2))
    due = [(await app.get(job)).run_at for job in (first, second)]
    assert due[0] is not None
    assert (done.number, done.due) == (2, due[1]) == (2, due[0] + timedelta(minutes=1))
    assert (await caller.transact(lambda jobs: jobs.purge(third))).number == 1
    assert (await app.dead_summary()).number == 0
