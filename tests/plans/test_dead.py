"""Dead letters are found and changed by their own indexes, however long the history is."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import product

import asyncpg
import pytest
import pytest_asyncio

from penstock import Penstock
from penstock.groups.keys import SCOPES
from penstock.service.auth import Caller
from penstock.service.routes.bulk import apply_action
from penstock.service.schemas import Action
from penstock.store import Store
from penstock.store.failed import FailedJobs
from penstock.store.matching import matches
from tests.fixtures.database import Database, connected, create, drop
from tests.fixtures.dead import dead
from tests.fixtures.server import PostgresServer
from tests.insights.history import fill
from tests.plans.reads import Reads, reads_of
from tests.plans.test_plans import FORGET

ENDED, FAILED, FEW = 5_000, 2_000, 20
ANY: list[object] = [None] * 10
OF_A_TASK: list[object] = [None, "broken", *[None] * 8]
LETTERS = FailedJobs(Store())
FAILED_INDEX, HISTORY, LIVE = "job_history_finished_at_idx", "job_history_pkey", "job_pkey"
OTHER_INDEXES = {"job_history_tenant_subject_idx", "job_history_batch_id_idx"}

Call = Callable[[asyncpg.Connection], Awaitable[object]]


async def redrive(connection: asyncpg.Connection, spacing: float | None) -> None:
    found, _ = await LETTERS.find(connection, ANY, None, FEW)
    ids = [place.id for place in found]
    answers = await LETTERS.redrive(connection, ids, spacing, None, by=None, filters="{}")
    assert len([each for each in answers if each["due"]]) == FEW


async def purge(connection: asyncpg.Connection) -> None:
    found, _ = await LETTERS.find(connection, ANY, None, FEW)
    ids = [place.id for place in found]
    answers = await LETTERS.purge(connection, ids, by=None, filters="{}")
    assert {each["answer"] for each in answers} == {"deleted"}


async def next_page(connection: asyncpg.Connection) -> None:
    found, began = await LETTERS.find(connection, ANY, None, FEW)
    await LETTERS.find(connection, [*ANY[:9], began], found[-1], FEW)


async def match(connection: asyncpg.Connection) -> None:
    """Two pages of those that `jobs retry` by filter is about."""
    which = [["failed"], *[None] * 9]
    found = await matches(Store(), connection, filters=which, after=None, limit=FEW)
    more = await matches(Store(), connection, filters=which, after=found[-1], limit=FEW)
    assert len({each.id for each in found + more}) == 2 * FEW


async def act_on(connection: asyncpg.Connection, filter: dict[str, str]) -> None:
    """What `POST /bulk/actions` does with the jobs that a filter finds."""
    client = Penstock().inside(connection)
    action = Action.model_validate({"action": "retry", "filter": filter})
    acted = await apply_action(client, action, Caller(name="ada", scopes=frozenset(SCOPES)))
    assert (acted.changed, acted.is_exact) == (FEW, True)


CALLS: dict[str, Call] = {
    "match": match,
    "act on a subject": lambda on: act_on(on, {"subject": "rare"}),
    "act on a batch": lambda on: act_on(on, {"batch": "1"}),
    "list": lambda on: LETTERS.page(on, ANY, None, FEW),
    "list those of a task": lambda on: LETTERS.page(on, OF_A_TASK, None, FEW),
    "find": lambda on: LETTERS.find(on, OF_A_TASK, None, FEW),
    "find the next page": next_page,
    "count": lambda on: LETTERS.sum(on, ANY, FEW),
    "redrive": lambda on: redrive(on, None),
    "redrive at a rate": lambda on: redrive(on, 0.1),
    "purge": purge,
}
STATISTICS = ("none", "up to date")
CONNECTIONS = ("new", "with generic plans")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def measured(
    postgres: PostgresServer, template: Database
) -> AsyncIterator[dict[tuple[str, str, str], Reads]]:
    database = await create(postgres, source=template.name)
    found: dict[tuple[str, str, str], Reads] = {}
    async with connected(database.url) as owner, connected(database.admin_url) as admin:
        await fill(owner, ENDED, per_second=1000)
        await dead(owner, FEW, subject="rare")
        await dead(owner, FEW, batch=1)
        await dead(owner, FAILED)
        for statistics in STATISTICS:
            await admin.execute(FORGET)
            if statistics == "up to date":
                await owner.execute("ANALYZE penstock.job, penstock.job_history")
            for how in CONNECTIONS:
                async with connected(database.url) as connection:
                    if how == "with generic plans":
                        await connection.execute("SET plan_cache_mode = force_generic_plan")
                    for name, call in CALLS.items():
                        found[name, statistics, how] = await reads_of(connection, call)
    yield found
    await drop(postgres, database)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_read_is_what_is_asked_for(
    name: str, measured: dict[tuple[str, str, str], Reads]
) -> None:
    cases = {case: measured[(name, *case)] for case in product(STATISTICS, CONNECTIONS)}
    assert {case: reads for case, reads in cases.items() if reads.rows} == {}
    assert {case: reads for case, reads in cases.items() if reads.most() > 20 * FEW} == {}
    indexes = {FAILED_INDEX, *OTHER_INDEXES, HISTORY, LIVE, "job_scheduled"}
    assert {case: r for case, r in cases.items() if r.entries.keys() - indexes} == {}
