"""Workers and apps do their work under row level security, each as a role that may no more."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import psycopg
import pytest

from penstock import (
    Cache,
    Client,
    Context,
    Job,
    Penstock,
    Task,
    Unique,
    UniqueConflict,
    Workflow,
    WorkflowNotFound,
    task,
)
from penstock.errors import (
    ConfigError,
    JobConflict,
    JobNotFound,
    ParentNotFound,
    TenantMismatch,
    TenantMissing,
    WaitTimeout,
)
from penstock.tasks.unique import OnConflict
from tests.fixtures.database import connected
from tests.fixtures.dead import dead
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of
from tests.rls.conftest import WORKER_LOGIN, Ground


@task
async def work(ctx: Context, number: int) -> str:
    ctx.progress(1, 2)
    return f"{number} for {ctx.job.tenant}"


@task
async def hang() -> None:
    await asyncio.sleep(60)


@task
async def spend(ctx: Context) -> str:
    async with ctx.budget("openai", units=5) as budget:
        budget.settle(3)
    return "spent"


@task
async def approve(ctx: Context) -> str:
    price = await ctx.step("price", abs, -42, cache=Cache(version=1))
    await ctx.sleep(0.01)
    return f"{price} {await ctx.wait_for_event('approved', timeout=60)}"


@task(resources=[Penstock])
async def follow(ctx: Context) -> str:
    ours = ctx.resource(Penstock).for_tenant(ctx.job.tenant)
    return (await ours.enqueue(work, 7)).id


@task(resources=[Penstock])
async def add_up(ctx: Context) -> str | None:
    async with connected(ctx.resource(Penstock).url) as connection, connection.transaction():
        await ctx.fence(connection)
        await ctx.complete(connection, "added")
    return None


@task
async def split(ctx: Context) -> None:
    flow = Workflow()
    for number in range(2):
        flow.add(work.prepare(number), after=ctx.job, before="merge")
    await ctx.extend(flow)


@task
async def merge(ctx: Context) -> list[str]:
    return sorted(each.result for each in (await ctx.parents()).values() if each.result)


def app_at(url: str) -> Penstock:
    """An app with the tasks of these tests, which is a resource of theirs itself."""
    app = Penstock(url, include=[work, hang, spend, approve, follow, add_up, split, merge])

    @app.resource(Penstock)
    @asynccontextmanager
    async def itself() -> AsyncIterator[Penstock]:
        yield app

    return app


@pytest.fixture(autouse=True)
def nothing_is_refused_unheard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A worker goes on when the database refuses something, and says so in its log."""
    yield
    assert [each.message for each in caplog.records if "permission denied" in each.message] == []


@pytest.fixture
async def app(ground: Ground) -> AsyncIterator[Penstock]:
    """As a web server has it: it enqueues and looks."""
    async with app_at(ground.app_url) as app:
        yield app


@asynccontextmanager
async def working(ground: Ground) -> AsyncIterator[Penstock]:
    """A worker that runs, as the role of workers."""
    async with app_at(ground.worker_url) as app, worker_of(app):
        yield app


async def test_worker_serves_all_tenants_and_each_sees_its_own_jobs(
    ground: Ground, app: Penstock
) -> None:
    a, b = app.for_tenant("a"), app.for_tenant("b")
    for_a, for_b = await a.enqueue(work, 1), await b.enqueue(work, 2)
    later = await a.enqueue(work.options(delay=0.2), 3)
    async with working(ground):
        assert await a.wait(for_a, 30) == "1 for a"
        assert await b.wait(for_b, 30) == "2 for b"
        assert await a.wait(later, 30) == "3 for a"
    assert {job.id for job in (await a.list()).jobs} == {for_a.id, later.id}
    assert {job.id for job in (await b.list()).jobs} == {for_b.id}
    assert set(await a.states([for_a, for_b])) == {for_a.id}
    for verb in (b.get, b.cancel, b.retry, b.delete):
        with pytest.raises(JobNotFound):
            await verb(for_a)
    await a.retry(for_a)
    assert await a.cancel(for_a)
    await a.delete(for_a)
    assert await a.find(for_a) is None
    async with ground.owner() as owner:
        assert await owner.fetchval("SELECT count(*) FROM penstock.progress WHERE job = 1") == 0


async def test_a_tenant_is_not_told_what_else_keeps_its_job_waiting(app: Penstock) -> None:
    """Whether there are workers, and for whom, is the owner's to see."""
    a = app.for_tenant("a")
    job = await a.enqueue(work, 1)
    with pytest.raises(WaitTimeout) as late:
        await a.wait(job, 0)
    assert (late.value.state, late.value.why) == ("ready", "")


async def test_unique_keys_of_tenants_do_not_collide(ground: Ground, app: Penstock) -> None:
    a, b = app.for_tenant("a"), app.for_tenant("b")
    for_a, for_b = [await each.enqueue(unique("skip"), 1) for each in (a, b)]
    assert not for_b.duplicate
    for on_conflict in ("skip", "replace"):
        assert (await a.enqueue(unique(on_conflict), 2)).id == for_a.id
    newer = await a.enqueue(unique("supersede"), 3)
    assert (await a.get(for_a)).reason == "superseded"
    assert (await b.get(for_b)).state == "ready"
    with pytest.raises(JobConflict, match=f"Job {newer.id} holds its unique key"):
        await a.retry(for_a)
    with pytest.raises(UniqueConflict, match=f"held by job {newer.id}"):
        await a.enqueue(unique("raise"), 4)
    async with working(ground):
        assert await a.wait(newer, 30) == "3 for a"
        assert await b.wait(for_b, 30) == "1 for b"
    assert not (await a.enqueue(unique("raise"), 4)).duplicate


def unique(on_conflict: OnConflict) -> Task[[int], str]:
    return work.options(unique=Unique(key="key", on_conflict=on_conflict))


async def test_schedules_of_tenants_make_jobs_only_they_see(ground: Ground, app: Penstock) -> None:
    async with app_at(ground.worker_url) as scheduling:
        for tenant in ("a", "b"):
            request = work.options(tenant=tenant).prepare(1)
            scheduling.schedule(f"for-{tenant}", request, every=0.2, on_start=True)
        async with worker_of(scheduling):
            for tenant in ("a", "b"):
                ours = app.for_tenant(tenant)

                async def ran(ours: Client = ours) -> tuple[Job, ...]:
                    return (await ours.list(state="completed")).jobs

                jobs = await until(ran, what="a job of the schedule")
                assert {(job.meta or {})["schedule"] for job in jobs} == {f"for-{tenant}"}


async def test_events_reach_jobs_of_their_tenant_only(ground: Ground, app: Penstock) -> None:
    a, b = app.for_tenant("a"), app.for_tenant("b")
    for_a, for_b = await a.enqueue(approve), await b.enqueue(approve)

    async def both_wait() -> bool:
        return {(await a.get(for_a)).state, (await b.get(for_b)).state} == {"blocked"}

    async with working(ground):
        await until(both_wait, what="both to wait")
        with pytest.raises(TenantMissing):
            await app.send_event("approved")
        assert (await a.send_event("approved", "for a")).woken == 1
        assert await a.wait(for_a, 30) == "42 for a"
        assert (await b.get(for_b)).state == "blocked"
        assert await b.sent_events() == []
        await b.send_event("approved", "for b")
        assert await b.wait(for_b, 30) == "42 for b"
    async with ground.owner() as owner:
        assert await owner.fetchval("SELECT count(*) FROM penstock.step_cache") == 2


async def test_without_a_tenant_an_app_is_closed(ground: Ground, app: Penstock) -> None:
    job = await app.for_tenant("a").enqueue(work, 1)
    assert (await app.list()).jobs == ()
    assert await app.find(job) is None
    with pytest.raises(TenantMissing, match="for_tenant"):
        await app.enqueue(work, 1)
    with pytest.raises(TenantMissing):
        await app.enqueue(work.options(tenant="a"), 1)


async def test_a_tenant_sees_and_changes_its_own_dead_letters_alone(
    ground: Ground, app: Penstock
) -> None:
    async with ground.owner() as owner:
        first, second = await dead(owner, 2, tenant="a")
        [theirs] = await dead(owner, 1, tenant="b")
    a = app.for_tenant("a")
    assert (await app.dead_letters()).jobs == ()
    assert {job.id for job in (await a.dead_letters()).jobs} == {first, second}
    assert (await a.dead_summary()).number == 2
    with pytest.raises(TenantMismatch):
        await a.dead_letters(tenant="b")
    assert (await a.redrive(theirs)).left == (await a.purge(theirs)).left == {theirs: "missing"}
    assert (await a.redrive(task="broken", rate="1/hour", limit=1)).number == 1
    assert (await a.purge(task="broken")).number == 1
    assert (await a.get(first)).state == "scheduled"
    assert (await app.for_tenant("b").get(theirs)).state == "failed"


async def test_a_job_of_another_tenant_is_refused_by_both_names(app: Penstock) -> None:
    a, theirs = app.for_tenant("a"), work.options(tenant="b")
    with pytest.raises(TenantMismatch, match="tenant 'b', but it is made as tenant 'a'") as refused:
        await a.enqueue(theirs, 1)
    assert (refused.value.tenant, refused.value.bound_to) == ("b", "a")
    with pytest.raises(TenantMismatch):
        await a.list(tenant="b")
    with pytest.raises(TenantMismatch):
        a.statement(theirs.prepare(1))
    await a.enqueue(work.options(tenant="a"), 1)
    with pytest.raises(ConfigError, match="tenant"):
        app.for_tenant("")


async def test_a_caller_sets_the_tenant_of_its_own_transaction(
    ground: Ground, app: Penstock
) -> None:
    async with connected(ground.app_url) as connection:
        async with connection.transaction():
            await connection.execute("SET LOCAL penstock.tenant = 'a'")
            job = await app.inside(connection).enqueue(work, 1)
            assert (await app.inside(connection).get(job)).tenant == "a"
        async with connection.transaction():
            with pytest.raises(JobNotFound):
                await app.for_tenant("b").inside(connection).get(job)
            sql, params = app.for_tenant("b").statement(work.prepare(2))
            assert await connection.fetchval(sql, *params) == [int(job.id) + 1]
        with pytest.raises(RuntimeError, match="Begin one first"):
            await app.inside(connection).for_tenant("a").get(job)
    assert (await app.for_tenant("a").get(job)).tenant == "a"


async def test_code_that_does_not_await_names_the_tenant_too(ground: Ground) -> None:
    def block() -> list[str]:
        app = app_at(ground.app_url)
        with app.sync as jobs, psycopg.connect(ground.app_url) as connection:
            first = jobs.for_tenant("a").enqueue(work, 1)
            inside = jobs.inside(connection).for_tenant("b")
            second = inside.enqueue(work, 2)
            assert jobs.for_tenant("b").find(first) is None
            return [jobs.for_tenant("a").get(first).tenant, inside.get(second).tenant]

    assert await asyncio.to_thread(block) == ["a", "b"]


async def test_idempotency_keys_of_two_tenants_do_not_meet(app: Penstock) -> None:
    once = work.options(idempotency_key="k")
    first = await app.for_tenant("a").enqueue(once, 1)
    other = await app.for_tenant("b").enqueue(once, 2)
    again = await app.for_tenant("a").enqueue(once, 1)
    assert (again.id, again.duplicate, other.duplicate) == (first.id, True, False)


async def test_tenant_cancels_its_running_job(ground: Ground, app: Penstock) -> None:
    a = app.for_tenant("a")
    async with working(ground):
        job = await a.enqueue(hang)

        async def running() -> str | None:
            return (await a.get(job)).worker

        await until(running)
        assert await a.cancel(job)
        # Or the slot would stay taken, and the stop would take until the handler is cut off.
        async with ground.owner() as owner:

            async def told() -> bool:
                return not await owner.fetchval("SELECT count(*) FROM penstock.signal")

            await until(told)


async def test_handler_completes_on_a_connection_of_the_workers_role(
    ground: Ground, app: Penstock
) -> None:
    a = app.for_tenant("a")
    job = await a.enqueue(add_up)
    async with working(ground):
        assert await a.wait(job, 30) == "added"


async def test_handler_enqueues_for_its_tenant_with_both_roles(
    ground: Ground, app: Penstock
) -> None:
    a = app.for_tenant("a")
    job = await a.enqueue(follow.options(max_attempts=1))
    async with connected(ground.database.admin_url) as admin:
        await admin.execute(f"GRANT penstock_app TO {WORKER_LOGIN}")
        try:
            async with working(ground):
                following = await a.wait(job, 30)
                assert await a.wait(following, 30) == "7 for a"
        finally:
            await admin.execute(f"REVOKE penstock_app FROM {WORKER_LOGIN}")


async def test_fair_queues_limits_and_plans_work_as_ever(ground: Ground, app: Penstock) -> None:
    async with Penstock(ground.database.direct_url) as owner:
        await owner.set_queue("default", fair=True)
        await owner.set_limit("task:work", slots=1, rate=50, burst=50)
        await owner.set_limit("openai", rate=1, burst=10)
        await owner.set_plan("gold", priority=5)
        await owner.set_tenant("a", plan="gold")
        await owner.set_tenant("b", plan="gold")
    jobs = {name: await app.for_tenant(name).enqueue(work, 1) for name in ("a", "b", "c")}
    found = {name: await app.for_tenant(name).get(job) for name, job in jobs.items()}
    assert {name: job.priority for name, job in found.items()} == {"a": 5, "b": 5, "c": 0}
    assert {job.lane.split("\x1f")[0] for job in found.values()} == {"a", "b", "c"}
    async with working(ground):
        for name, job in jobs.items():
            assert await app.for_tenant(name).wait(job, 30) == f"1 for {name}"
        a = app.for_tenant("a")
        assert await a.wait(await a.enqueue(spend), 30) == "spent"


async def test_a_worker_drops_a_partition_whose_day_has_passed(ground: Ground) -> None:
    day = datetime.now(UTC).date() - timedelta(days=2)
    name = f"job_history_{day:%Y%m%d}"
    async with ground.owner() as owner:
        await owner.execute(
            f"CREATE TABLE penstock.{name} PARTITION OF penstock.job_history"
            f" FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
        )

        async def gone() -> bool:
            return await owner.fetchval("SELECT to_regclass($1)", f"penstock.{name}") is None

        async with working(ground):
            await until(gone)


async def test_a_worker_drops_no_other_table(ground: Ground) -> None:
    today = f"job_history_{datetime.now(UTC):%Y%m%d}"
    async with connected(ground.worker_url) as worker:
        for name in (today, "job", 'job_history_20200101"; DROP TABLE penstock.job; --'):
            with pytest.raises(asyncpg.InvalidParameterValueError):
                await worker.execute("SELECT penstock.drop_partition_v1($1)", name)


async def test_a_drop_waits_for_no_reader_and_nobody_for_it(ground: Ground) -> None:
    async with connected(ground.worker_url) as worker, ground.owner() as reader:
        async with reader.transaction():
            await reader.execute("SELECT FROM penstock.job_history")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await worker.execute("SELECT penstock.drop_partition_v1('job_history_20200101')")
        await worker.execute("SELECT penstock.drop_partition_v1('job_history_20200101')")


async def test_other_tenants_neither_see_nor_extend_a_workflow(
    ground: Ground, app: Penstock
) -> None:
    ours, theirs = app.for_tenant("a"), app.for_tenant("b")
    flow = Workflow("import")
    flow.add(merge.prepare(), name="merge", after=flow.add(split.prepare(), name="split"))
    started = await ours.start_workflow(flow)
    strange = Workflow()
    strange.add(work.prepare(1), after=started["split"])
    mine = await theirs.start_workflow(_lone())
    for call in (
        theirs.extend_workflow(started, _lone()),
        theirs.get_workflow(started),
        theirs.cancel_workflow(started),
        theirs.retry_workflow(started),
    ):
        with pytest.raises(WorkflowNotFound):
            await call
    with pytest.raises(ParentNotFound):
        await theirs.extend_workflow(mine, strange)
    with pytest.raises(JobNotFound):
        await theirs.unblock(started["merge"])
    async with working(ground):
        status = await ours.wait_workflow(started, 20)
        await theirs.wait_workflow(mine, 20)
    assert (status.state, status.total, status.tenant) == ("completed", 4, "a")
    assert await ours.wait(started["merge"]) == ["0 for a", "1 for a"]
    assert [each.id for each in (await theirs.workflows()).workflows] == [mine.id]


def _lone() -> Workflow:
    flow = Workflow()
    flow.add(work.prepare(7))
    return flow
