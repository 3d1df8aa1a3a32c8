"""Workflows from the client: started, added to, looked at, changed."""

import asyncio
from typing import Any

import pytest

from penstock import (
    Enqueued,
    JobNotFound,
    Penstock,
    Request,
    Task,
    Workflow,
    WorkflowCycle,
    WorkflowNotFound,
    WorkflowRefused,
    WorkflowTimeout,
)
from penstock.errors import ChildStarted, JobConflict, ParentNotFound, StepUnclear, TenantMismatch
from penstock.worker import Tally
from tests.fixtures.database import Database


@pytest.fixture
def work(app: Penstock) -> Task[[str], str]:
    @app.task(name="work", max_attempts=1)
    async def work(what: str) -> str:
        if what == "fail":
            raise ValueError("broken")
        return what.upper()

    return work


def diamond(work: Task[[str], str], **settings: Any) -> Workflow:
    flow = Workflow("diamond", **settings)
    top = flow.add(work.prepare("top"), name="top")
    sides = [flow.add(work.prepare(side), name=side, after=top) for side in ("left", "right")]
    flow.add(work.prepare("bottom"), name="bottom", after=sides)
    return flow


async def drain(app: Penstock) -> Tally:
    return await app.worker().drain()


async def test_a_workflow_is_started_looked_at_and_waited_for(
    app: Penstock, work: Task[[str], str]
) -> None:
    started = await app.start_workflow(diamond(work, meta={"for": "Ada"}))
    assert list(started.jobs) == ["top", "left", "right", "bottom"]
    status = await app.get_workflow(started)
    assert (status.state, status.counts, status.total) == ("running", {"ready": 1, "blocked": 3}, 4)
    assert (status.name, status.meta, status.finished_at) == ("diamond", {"for": "Ada"}, None)
    ids = {name: job.id for name, job in started.jobs.items()}
    assert status["bottom"].parents == (ids["left"], ids["right"])
    assert (await app.get(started["left"])).step == "left"
    with pytest.raises(WorkflowTimeout, match="still running"):
        await app.wait_workflow(started, 0.01)
    assert (await drain(app)).completed == 4
    done = await app.wait_workflow(started.id, 5)
    assert (done.state, done.counts) == ("completed", {"completed": 4})
    assert done.finished_at is not None
    assert await app.wait(started["bottom"]) == "BOTTOM"


async def test_workflow_commits_with_the_callers_transaction(
    app: Penstock, work: Task[[str], str], database: Database
) -> None:
    async with database.connect() as connection:
        outer = connection.transaction()
        await outer.start()
        lost = await app.inside(connection).start_workflow(diamond(work))
        await outer.rollback()
        async with connection.transaction():
            kept = await app.inside(connection).start_workflow(diamond(work))
            assert (await app.inside(connection).get_workflow(kept)).total == 4
    assert (await app.get_workflow(kept)).total == 4
    with pytest.raises(WorkflowNotFound, match=f"no workflow {lost.id}"):
        await app.get_workflow(lost)


async def test_workflow_inside_a_connection_needs_a_transaction(
    app: Penstock, work: Task[[str], str], database: Database
) -> None:
    async with database.connect() as connection:
        with pytest.raises(RuntimeError, match="Begin one first"):
            await app.inside(connection).start_workflow(diamond(work))
    assert (await app.workflows()).workflows == ()


async def test_nothing_is_stored_of_a_workflow_that_is_refused(
    app: Penstock, work: Task[[str], str]
) -> None:
    with pytest.raises(WorkflowRefused, match="no steps"):
        await app.start_workflow(Workflow())
    flow = Workflow()
    flow.add(work.prepare("a"), after="nowhere")
    with pytest.raises(WorkflowRefused, match="step 'nowhere', which is not part of this workflow"):
        await app.start_workflow(flow)
    mixed = Workflow()
    mixed.chain(work.options(tenant="a").prepare("a"), work.options(tenant="b").prepare("b"))
    with pytest.raises(WorkflowRefused, match="'a', 'b'"):
        await app.start_workflow(mixed)
    with pytest.raises(TenantMismatch):
        await app.for_tenant("c").start_workflow(_one(work.options(tenant="a").prepare("a")))
    assert (await app.workflows()).workflows == ()


async def test_a_workflow_belongs_to_the_tenant_of_its_jobs(
    app: Penstock, work: Task[[str], str]
) -> None:
    ours = await app.for_tenant("acme").start_workflow(diamond(work))
    theirs = await app.start_workflow(_one(work.options(tenant="other").prepare("a")))
    assert (await app.get(ours["top"])).tenant == "acme"
    assert [each.id for each in (await app.workflows(tenant="acme")).workflows] == [ours.id]
    page = await app.for_tenant("other").workflows()
    assert [(each.id, each.tenant) for each in page.workflows] == [(theirs.id, "other")]
    added = await app.extend_workflow(ours, _one(work.prepare("more")))
    assert (await app.get(added["work"])).tenant == "acme"
    with pytest.raises(TenantMismatch):
        await app.extend_workflow(ours, _one(work.options(tenant="other").prepare("a")))


async def test_workflows_come_in_pages_newest_first(app: Penstock, work: Task[[str], str]) -> None:
    ids = [(await app.start_workflow(_one(work.prepare("a")))).id for _ in range(3)]
    page = await app.workflows(limit=2)
    assert [each.id for each in page.workflows] == [ids[2], ids[1]]
    rest = await app.workflows(limit=2, after=page.after)
    assert ([each.id for each in rest.workflows], rest.after) == ([ids[0]], None)


@pytest.mark.parametrize(
    ("policy", "state", "child"),
    [
        ("cancel", "failed", "cancelled"),
        ("continue", "completed", "completed"),
        ("wait", "blocked", "blocked"),
    ],
)
async def test_failure_policy_of_steps_decides_the_workflows_state(
    app: Penstock, work: Task[[str], str], policy: Any, state: str, child: str
) -> None:
    flow = Workflow(on_failure=policy)
    flow.chain(work.prepare("fail"), work.prepare("next"))
    started = await app.start_workflow(flow)
    await drain(app)
    status = await app.get_workflow(started)
    assert (status.state, status["work 2"].state) == (state, child)
    assert status["work"].error == "ValueError: broken"
    assert status.stalled == (1 if policy == "wait" else 0)


async def test_a_workflow_goes_on_from_the_step_that_failed(app: Penstock) -> None:
    ran: list[str] = []

    @app.task(name="work", max_attempts=1)
    async def work(what: str) -> None:
        ran.append(what)
        if what == "left" and ran.count("left") == 1:
            raise ValueError("broken")

    started = await app.start_workflow(diamond(work))  # type: ignore[arg-type]
    await drain(app)
    assert (await app.get_workflow(started)).state == "failed"
    assert await app.retry_workflow(started) == 2
    await drain(app)
    assert (await app.get_workflow(started)).state == "completed"
    assert sorted(ran) == ["bottom", "left", "left", "right", "top"]
    assert ran[-1] == "bottom"
    assert await app.retry_workflow(started) == 0


async def test_a_workflow_is_cancelled(app: Penstock, work: Task[[str], str]) -> None:
    started = await app.start_workflow(diamond(work))
    assert await app.cancel_workflow(started) == 4
    assert (await app.get_workflow(started)).state == "cancelled"
    assert await app.retry_workflow(started) == 4
    assert (await app.get_workflow(started)).counts == {"ready": 1, "blocked": 3}
    for missing in ("999", "x"):
        for call in (app.cancel_workflow, app.retry_workflow, app.get_workflow, app.wait_workflow):
            with pytest.raises(WorkflowNotFound):
                await call(missing)


async def test_a_blocked_job_is_retried_as_blocked_or_let_go(
    app: Penstock, work: Task[[str], str]
) -> None:
    started = await app.start_workflow(diamond(work))
    await app.cancel(started["left"])
    await app.retry(started["left"])
    assert (await app.get(started["left"])).state == "blocked"
    awaited = await app.awaited(started["left"])
    assert [(each.step, each.state, each.satisfied) for each in awaited] == [
        ("top", "ready", False)
    ]
    await app.unblock(started["left"])
    assert (await app.get(started["left"])).state == "ready"
    await app.cancel(started["right"])
    with pytest.raises(JobConflict):
        await app.unblock(started["right"])
    with pytest.raises(JobNotFound):
        await app.unblock("999")


async def test_steps_are_added_after_and_before_those_that_are_there(
    app: Penstock, work: Task[[str], str]
) -> None:
    started = await app.start_workflow(diamond(work))
    more = Workflow()
    part = more.add(work.prepare("a"), name="a", after="top", before=["bottom", started["right"]])
    more.add(work.prepare("b"), name="b", after=part, before="bottom")
    added = await app.extend_workflow(started, more)
    status = await app.get_workflow(started)
    assert status["bottom"].pending == 4
    assert status["right"].parents == (started["top"].id, added["a"].id)
    assert status["b"].parents == (added["a"].id,)
    assert (await drain(app)).completed == 6


async def test_an_addition_that_cannot_be_is_refused_with_its_cause(
    app: Penstock, work: Task[[str], str]
) -> None:
    started = await app.start_workflow(diamond(work))
    other = await app.start_workflow(diamond(work))
    refusals: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"after": "bottom", "before": "left"}, WorkflowCycle, r"\(left\) → \d+ \(bottom\) → "),
        ({"after": other["top"]}, ParentNotFound, "belongs to another workflow"),
        ({"before": other["bottom"]}, ChildStarted, f"is not of workflow {started.id}"),
        ({"after": "nobody"}, StepUnclear, "has no step with the name 'nobody'"),
    ]
    for places, kind, words in refusals:
        flow = Workflow()
        flow.add(work.prepare("more"), **places)
        with pytest.raises(kind, match=words):
            await app.extend_workflow(started, flow)
    with pytest.raises(WorkflowNotFound):
        await app.extend_workflow("999", _one(work.prepare("more")))
    twin = _one(work.prepare("again"), name="top")
    await app.extend_workflow(started, twin)
    flow = Workflow()
    flow.add(work.prepare("more"), after="top")
    with pytest.raises(StepUnclear, match="2 steps"):
        await app.extend_workflow(started, flow)
    assert (await app.get_workflow(started)).total == 5


async def test_fan_of_ten_thousand_starts_cancels_and_retries_quickly(
    app: Penstock, work: Task[[str], str]
) -> None:
    flow = Workflow()
    first = flow.add(work.prepare("first"))
    fan = [flow.add(work.prepare("part"), after=first) for _ in range(10_000)]
    flow.add(work.prepare("last"), after=fan, name="last")
    started = await app.start_workflow(flow)
    status = await app.get_workflow(started)
    assert (status.total, status["last"].pending) == (10_002, 10_000)
    # A plan that walks through all of it for each job takes minutes.
    async with asyncio.timeout(60):
        assert await app.cancel_workflow(started) == 10_002
        assert await app.retry_workflow(started) == 10_002
    assert (await app.get_workflow(started)).counts == {"ready": 1, "blocked": 10_001}


def test_the_calls_block_where_nothing_is_awaited(database: Database) -> None:
    app = Penstock(database.url)

    @app.task(name="work")
    def work(what: str) -> str:
        return what

    with app.sync as jobs:
        started = jobs.start_workflow(diamond(work))  # type: ignore[arg-type]
        jobs.extend_workflow(started, _one(work.prepare("more")))
        assert jobs.get_workflow(started).total == 5
        assert [each.id for each in jobs.workflows().workflows] == [started.id]
        jobs.unblock(started["left"])
        assert jobs.cancel_workflow(started) == 5
        assert jobs.wait_workflow(started, 5).state == "cancelled"
        assert jobs.retry_workflow(started) == 5


async def test_what_is_no_workflow_is_refused(app: Penstock) -> None:
    wrong: Any = Enqueued("1")
    with pytest.raises(TypeError, match="Pass the id of a workflow"):
        await app.get_workflow(wrong)

    @app.task
    async def plain() -> None: ...

    job = await app.get(await app.enqueue(plain))
    with pytest.raises(WorkflowNotFound, match=f"of job {job.id}"):
        await app.get_workflow(job)


def _one(request: Request[Any], name: str | None = None) -> Workflow:
    flow = Workflow()
    flow.add(request, name=name)
    return flow
