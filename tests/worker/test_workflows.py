"""Handlers in workflows: the results of parents, and additions from a running job."""

from typing import Any

import pytest

from penstock import Context, Fixed, Penstock, Workflow
from penstock.errors import ChildStarted, IdempotencyMismatch, WorkflowRefused
from tests.fixtures.worker import worker_of

pytestmark = pytest.mark.any_pooler


async def test_a_handler_reads_what_its_parents_came_to(app: Penstock) -> None:
    @app.task(max_attempts=1)
    async def part(number: int) -> dict[str, int]:
        if number == 2:
            raise ValueError("broken")
        return {"number": number}

    @app.task(retry=Fixed(0))
    async def second_try(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("broken once")

    @app.task
    async def merge(ctx: Context) -> dict[str, Any]:
        parents = await ctx.parents()
        return {name: each.result or each.error for name, each in parents.items()}

    @app.task
    def merge_in_a_thread(ctx: Context) -> list[str]:
        return sorted(name for name, each in ctx.sync.parents().items() if each.is_completed)

    flow = Workflow(on_failure="continue")
    parts = [flow.add(part.prepare(number), name=f"part {number}") for number in (1, 2)]
    late = flow.add(second_try.prepare(), name="late")
    flow.add(merge.prepare(), name="merge", after=[*parts, late])
    flow.add(merge_in_a_thread.prepare(), name="thread", after=parts)
    flow.add(merge.prepare(), name="alone")
    started = await app.start_workflow(flow)
    await app.worker().drain()
    assert await app.wait(started["merge"]) == {
        "part 1": {"number": 1},
        "part 2": "ValueError: broken",
        "late": None,
    }
    status = await app.get_workflow(started)
    assert (status["part 2"].error, status["late"].error) == ("ValueError: broken", None)
    assert await app.wait(started["thread"]) == ["part 1"]
    assert await app.wait(started["alone"]) == {}


async def test_a_splitter_fans_out_and_the_merge_waits_for_the_parts(app: Penstock) -> None:
    seen: list[int] = []

    @app.task
    async def part(number: int) -> int:
        return number

    @app.task(retry=Fixed(0))
    async def split(ctx: Context) -> list[str]:
        more = Workflow()
        for number in range(5):
            more.add(part.prepare(number), after=ctx.job, before="merge")
        ids = await ctx.extend(more)
        again = Workflow()
        again.add(part.prepare(5), before="merge")
        ids |= {f"{name} of the second call": id for name, id in (await ctx.extend(again)).items()}
        if ctx.attempt < 3:
            raise ValueError("broken behind the addition")
        return sorted(ids.values())

    @app.task
    async def merge(ctx: Context) -> None:
        parents = (await ctx.parents()).values()
        seen.extend(sorted(each.result for each in parents if each.task.endswith("part")))

    flow = Workflow()
    flow.chain(split.prepare())
    flow.add(merge.prepare(), name="merge", after=flow.steps[0])
    started = await app.start_workflow(flow)
    async with worker_of(app):
        status = await app.wait_workflow(started, 20)
    # Three attempts have added each part once.
    assert (status.state, status.total) == ("completed", 8)
    assert seen == [0, 1, 2, 3, 4, 5]


async def test_an_addition_from_a_thread_or_from_outside_a_workflow(app: Penstock) -> None:
    @app.task
    def more(ctx: Context, depth: int) -> None:
        flow = Workflow()
        if depth:
            flow.add(more.prepare(depth - 1), after=ctx.job)
        assert list(ctx.sync.extend(flow)) == ([flow.steps[0].name] if depth else [])

    flow = Workflow()
    flow.add(more.prepare(3))
    started = await app.start_workflow(flow)
    tally = await app.worker().drain()
    assert (tally.completed, (await app.get_workflow(started)).total) == (4, 4)
    lone = await app.enqueue(more.options(max_attempts=1), 1)
    await app.worker().drain()
    error = (await app.get(lone)).last_error
    assert error is not None
    assert error.type.endswith(WorkflowRefused.__name__)
    assert "belongs to no workflow" in error.message


@pytest.mark.parametrize("kind", [IdempotencyMismatch, ChildStarted])
async def test_an_addition_that_is_refused_is_an_error_of_the_handler(
    app: Penstock, kind: type[Exception]
) -> None:
    @app.task(retry=Fixed(0), max_attempts=2)
    async def split(ctx: Context) -> None:
        flow = Workflow()
        if kind is ChildStarted:
            flow.add(other.prepare(0), before=ctx.job)
        else:
            flow.add(other.prepare(ctx.attempt))
        await ctx.extend(flow)
        raise ValueError("again")

    @app.task
    async def other(number: int) -> None: ...

    flow = Workflow()
    flow.add(split.prepare(), name="split")
    started = await app.start_workflow(flow)
    await app.worker().drain()
    error = (await app.get(started["split"])).last_error
    assert error is not None
    assert error.type.endswith(kind.__name__)
