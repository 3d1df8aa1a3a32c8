"""What type checkers must accept of workflows, and what they must refuse.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from typing import assert_type

from penstock import (
    Context,
    Enqueued,
    Parent,
    Penstock,
    Started,
    Step,
    Workflow,
    WorkflowStatus,
    WorkflowStep,
)

app = Penstock()


@app.task
async def fetch(url: str) -> int:
    return 1


@app.task
async def merge(ctx: Context) -> None:
    assert_type(await ctx.parents(), dict[str, Parent])
    more = Workflow()
    more.add(fetch.prepare("a"), after=ctx.job, before="merge")
    assert_type(await ctx.extend(more), dict[str, str])


async def built() -> None:
    flow = Workflow("import", on_failure="wait", meta={"a": 1})
    first = flow.add(fetch.prepare("a"), name="fetch")
    assert_type(first, Step[int])
    flow.add(merge.prepare(), after=[first, "fetch"], on_failure="continue")
    flow.link(first, after="another")
    flow.chain(fetch.prepare("a"), [fetch.prepare("b")], after=first)
    started = await app.start_workflow(flow)
    assert_type(started, Started)
    flow.add(merge.prepare(), after=started["fetch"])
    status = await app.wait_workflow(started, timeout=5)
    assert_type(status, WorkflowStatus)
    assert_type(status["fetch"], WorkflowStep)
    assert_type(app.sync.retry_workflow(started), int)
    assert_type(app.sync.start_workflow(flow), Started)
    await app.unblock(started["merge"])
    await app.unblock(Enqueued("1"))

    flow.add(fetch)  # type: ignore[arg-type]
    flow.add(merge.prepare(), after=7)  # type: ignore[arg-type]
    flow.add(merge.prepare(), on_failure="explode")  # type: ignore[arg-type]
