"""A workflow is put together without a database; what cannot be is refused by name."""

from typing import Any

import pytest

from penstock import Request, Step, Workflow, WorkflowCycle, WorkflowRefused, task
from penstock.errors import ConfigError
from penstock.tasks.workflow import ExistingJob


@task(name="fetch")
async def fetch(url: str) -> str:
    return url


@task(name="parse")
async def parse(number: int) -> int:
    return number


def names(steps: list[Step[Any]]) -> list[str]:
    return [step.name for step in steps]


def edges(flow: Workflow) -> dict[str, dict[str, str]]:
    return {
        step.name: {
            flow.steps[each].name if isinstance(each, int) else str(each): policy
            for each, policy in flow.parents[step.number].items()
        }
        for step in flow.steps
    }


def page(number: int = 1) -> Request[int]:
    return parse.prepare(number)


def test_steps_are_named_after_their_tasks_with_a_number() -> None:
    flow = Workflow("import")
    flow.add(page(), name="parse 2")
    assert names([flow.add(page(each)) for each in range(3)]) == ["parse", "parse 3", "parse 4"]
    with pytest.raises(WorkflowRefused, match="Two steps of the workflow have the name 'parse'"):
        flow.add(page(), name="parse")
    assert len(flow) == 4


def test_step_waits_for_one_or_many_with_its_failure_policy() -> None:
    flow = Workflow(on_failure="wait")
    first = flow.add(fetch.prepare("a"), name="fetch")
    pages = [flow.add(page(each), after=first) for each in range(2)]
    flow.add(page(), name="index", after=pages, on_failure="continue")
    flow.add(page(), name="named", after="index")
    assert edges(flow) == {
        "fetch": {},
        "parse": {"fetch": "wait"},
        "parse 2": {"fetch": "wait"},
        "index": {"parse": "continue", "parse 2": "continue"},
        "named": {"index": "wait"},
    }
    assert flow["index"].name in flow


def test_a_chain_of_stages_fans_out_and_in() -> None:
    flow = Workflow()
    start = flow.add(fetch.prepare("a"))
    [last] = flow.chain(page(1), [page(2), page(3)], page(4), after=start)
    assert edges(flow) == {
        "fetch": {},
        "parse": {"fetch": "cancel"},
        "parse 2": {"parse": "cancel"},
        "parse 3": {"parse": "cancel"},
        "parse 4": {"parse 2": "cancel", "parse 3": "cancel"},
    }
    assert last.name == "parse 4"
    with pytest.raises(ConfigError, match="stage"):
        flow.chain(page(), [])


def test_cycle_is_refused_with_its_steps() -> None:
    flow = Workflow()
    a = flow.add(page(), name="a")
    b = flow.add(page(), name="b", after=a)
    c = flow.add(page(), name="c", after=b)
    before = edges(flow)
    with pytest.raises(WorkflowCycle, match="a → b → c → a"):
        flow.link(a, after=c)
    with pytest.raises(WorkflowCycle, match="b → b"):
        flow.link(b, after=b)
    with pytest.raises(WorkflowCycle, match="a → b → c → d → a"):
        flow.add(page(), name="d", after=c, before=a)
    assert edges(flow) == before
    assert flow.add(page(), name="d", after=c).number == 3


def test_steps_follow_those_they_wait_for_in_any_order_of_adding() -> None:
    flow = Workflow()
    last = flow.add(page(), name="last")
    middle = flow.add(page(), name="middle", before=last)
    first = flow.add(page(), name="first")
    flow.link(middle, after=first)
    assert names(flow.in_order()) == ["first", "middle", "last"]
    flow.link("last", after="first")
    assert edges(flow)["last"] == {"middle": "cancel", "first": "cancel"}
    with pytest.raises(WorkflowRefused, match="no step 'lost' yet"):
        flow.link("lost", after="first")
    assert names(flow.steps) == ["last", "middle", "first"]


def test_a_long_chain_is_checked_and_ordered_without_recursion() -> None:
    flow = Workflow()
    flow.chain(*(page(each) for each in range(5000)))
    with pytest.raises(WorkflowCycle):
        flow.link(flow.steps[0], after=flow.steps[-1])
    assert len(flow.in_order()) == 5000


def test_a_job_that_is_there_already_is_meant_by_name_or_by_id() -> None:
    flow = Workflow()
    flow.add(page(), after=ExistingJob("41"), before=["merge", ExistingJob("42")])
    assert flow.parents == [{ExistingJob("41"): "cancel"}]
    assert flow.children == [{"merge": "cancel", ExistingJob("42"): "cancel"}]


def test_what_is_no_step_is_refused() -> None:
    flow, other = Workflow(), Workflow()
    foreign = other.add(page())
    wrong: Any = fetch
    with pytest.raises(TypeError, match=r"made with task.prepare"):
        flow.add(wrong)
    with pytest.raises(TypeError, match="not for 7"):
        flow.add(page(), after=[7])  # type: ignore[list-item]
    for mistake in (lambda: flow.add(page(), after=foreign), lambda: flow.link(foreign, after=())):
        with pytest.raises(WorkflowRefused, match="belongs to another workflow"):
            mistake()
    with pytest.raises(ConfigError, match="cancel, continue, wait"):
        Workflow(on_failure="explode")  # type: ignore[arg-type]
    for options in ({"idempotency_key": "a"}, {"unique": True}):
        with pytest.raises(WorkflowRefused, match="must be a new job"):
            flow.add(parse.options(**options).prepare(1))  # type: ignore[typeddict-item]
    assert len(flow) == 0
