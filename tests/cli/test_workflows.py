"""`penstock workflows`: look at workflows, draw them, cancel and retry them."""

import json

import pytest
from rich.console import Console

from penstock import Started, Workflow
from penstock.cli.screens.workflows import common_name, draw_graph, group_into_fans
from penstock.groups.workflows import WorkflowStep
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.proxy import Proxy
from tests.fixtures.worker import worker_of


async def failed(shop: Shop, fan: int = 12) -> Started:
    """A workflow with a fan, one of which fails: what is behind waits for a person."""
    flow = Workflow("import", on_failure="wait")
    fetch = flow.add(shop.greet.prepare("Ada"), name="fetch")
    pages = [flow.add(shop.greet.prepare(str(n)), after=fetch) for n in range(fan)]
    broken = flow.add(shop.fail.prepare(), name="broken", after=fetch)
    index = flow.add(shop.greet.prepare("Eve"), name="index", after=[*pages, broken])
    flow.add(shop.greet.prepare("Ida"), name="tell", after=[index, fetch])
    started = await shop.app.start_workflow(flow)
    await worker_of(shop.app).drain()
    return started


async def test_a_list_says_how_far_each_is(penstock: Commands, shop: Shop) -> None:
    assert penstock.run("workflows", "list").stdout == "There are no such workflows.\n"
    started = await failed(shop)
    lines = penstock.run("workflows", "list").stdout.splitlines()
    assert lines[0].split()[:5] == ["id", "state", "done", "failed", "stalled"]
    assert lines[1].split()[:5] == [started.id, "blocked", "13/16", "1", "1"]
    [found] = json.loads(penstock.run("workflows", "list", "--json").stdout)["workflows"]
    assert (found["id"], found["state"], found["name"]) == (started.id, "blocked", "import")
    assert "steps" not in found
    assert penstock.run("workflows", "list", "--tenant", "acme").stdout.startswith("There are no")


async def test_one_is_drawn_with_its_fans_folded(penstock: Commands, shop: Shop) -> None:
    started = await failed(shop)
    shown = penstock.run("workflows", "show", started.id).stdout.splitlines()
    assert shown[0] == f"Workflow {started.id}  import  blocked"
    graph = shown[shown.index("") + 1 :]
    ids = {step: job.id for step, job in started.jobs.items()}
    assert graph[0] == f"  ✓ fetch  completed  job {ids['fetch']}"
    assert graph[1] == "  └▶ ✓ shop.greet ×12: 12 completed"
    assert graph[2].startswith(f"  └▶ ✗ broken  failed (exhausted)  job {ids['broken']}  ")
    assert graph[2].endswith("← fetch")
    assert graph[3] == (
        f"     └▶ · index  blocked (parent_failed)  job {ids['index']}  ← shop.greet ×12, broken"
    )
    assert graph[4] == f"        └▶ · tell  blocked  job {ids['tell']}  ← fetch, index"
    assert any("penstock jobs unblock ID" in line for line in shown)
    told = json.loads(penstock.run("workflows", "show", started.id, "--json").stdout)
    assert (told["state"], len(told["steps"]), told["stalled"]) == ("blocked", 16, 1)
    missing = penstock.run("workflows", "show", "404", "--json")
    assert (missing.returncode, json.loads(missing.stdout)["error"]["kind"]) == (
        3,
        "workflow_not_found",
    )
    assert penstock.run("workflows", "show", started.id, "--tenant", "acme").returncode == 3


async def test_a_blocked_job_names_what_it_waits_for_and_is_let_go(
    penstock: Commands, shop: Shop
) -> None:
    started = await failed(shop)
    index, broken, tell = (started[each].id for each in ("index", "broken", "tell"))
    shown = penstock.run("jobs", "show", index).stdout
    assert f"It waits for 1 job: broken (failed, job {broken})." in shown
    assert f"`penstock jobs unblock {index}` lets this one go on" in shown
    assert f"{started.id}, step index" in shown
    listed = penstock.run("jobs", "list", "--workflow", started.id, "--state", "blocked", "--json")
    assert [job["id"] for job in json.loads(listed.stdout)["jobs"]] == [tell, index]
    lines = penstock.run("jobs", "list", "--state", "blocked").stdout.splitlines()
    assert lines[1].endswith("waits for 1 job")
    assert lines[2].endswith("waits for 1 job, which did not complete")
    assert penstock.run("jobs", "unblock", index).stdout == "1 job was unblocked.\n"
    done = penstock.run("jobs", "unblock", broken)
    assert (done.returncode, "failed already" in done.stdout) == (4, True)
    await worker_of(shop.app).drain()
    watched = penstock.run("workflows", "show", started.id, "--watch")
    assert (watched.returncode, watched.stdout.splitlines()[0].split()[-1]) == (5, "failed")


async def test_one_is_waited_for(penstock: Commands, shop: Shop) -> None:
    started = await failed(shop)
    late = penstock.run("workflows", "wait", started.id, "--timeout", "0.1s", "--json")
    error = json.loads(late.stdout)["error"]
    assert (late.returncode, error["kind"], error["id"]) == (6, "workflow_timeout", started.id)
    await shop.app.unblock(started["index"])
    await worker_of(shop.app).drain()
    waited = penstock.run("workflows", "wait", started.id, "--json")
    assert (waited.returncode, json.loads(waited.stdout)["state"]) == (5, "failed")
    flow = Workflow()
    flow.add(shop.greet.prepare("Ada"))
    fine = await shop.app.start_workflow(flow)
    await worker_of(shop.app).drain()
    assert penstock.run("workflows", "wait", fine.id).returncode == 0
    assert penstock.run("workflows", "wait", "404").returncode == 3


async def test_a_terminal_sees_the_graph_until_the_end(penstock: Commands, shop: Shop) -> None:
    flow = Workflow("import")
    flow.add(shop.greet.prepare("Ada"), name="fetch")
    started = await shop.app.start_workflow(flow)
    with Terminal(penstock, "workflows", "show", started.id, "--watch") as terminal:
        terminal.wait_for("○ fetch  ready")
        await worker_of(shop.app).drain()
        assert terminal.end() == 0
        assert "✓ fetch  completed" in terminal.text


async def test_wait_that_loses_the_database_names_the_workflow(
    penstock: Commands, shop: Shop, proxy: Proxy
) -> None:
    started = await failed(shop, fan=1)
    here = ("--timeout", "1s", "--database-url", proxy.url)
    proxy.refuse_after("-- Return a workflow", nth=2)  # whether it is there, and the first look
    with Terminal(penstock, "workflows", "wait", started.id, *here) as terminal:
        assert terminal.end() == 1
        told = (
            f"Workflow {started.id} is kept in the database, and goes on when the database is back."
        )
        assert told in " ".join(terminal.text.split())


async def test_one_is_retried_and_cancelled(penstock: Commands, shop: Shop) -> None:
    started = await failed(shop)
    done = penstock.run("workflows", "retry", started.id, "--json")
    assert json.loads(done.stdout) == {"changed": 1, "left": []}
    refused = penstock.run("workflows", "cancel", started.id, input="n\n")
    assert (refused.returncode != 0, (await shop.app.get_workflow(started)).counts["ready"]) == (
        True,
        1,
    )
    done = penstock.run("workflows", "cancel", started.id, "--yes", "--json")
    assert json.loads(done.stdout) == {"changed": 3, "left": []}
    assert penstock.run("workflows", "retry", "404").returncode == 3


@pytest.mark.parametrize("command", ["dead redrive", "jobs retry"])
async def test_a_step_that_comes_back_alone_names_its_workflow(
    penstock: Commands, shop: Shop, command: str
) -> None:
    flow = Workflow()
    flow.chain(shop.fail.prepare(), shop.greet.prepare("Ada"))
    started = await shop.app.start_workflow(flow)
    await worker_of(shop.app).drain()
    done = penstock.run(*command.split(), started["shop.fail"].id)
    assert f"1 of them is a step of workflow {started.id}: `penstock workflows " in done.stdout
    assert f"retry {started.id}` also brings back what was cancelled because of it." in done.stdout
    await worker_of(shop.app).drain()
    redriven = await shop.app.redrive(task="shop.fail")
    assert (redriven.number, redriven.workflows) == (1, {started.id: 1})


async def test_a_step_that_is_tried_again_says_when_and_why(penstock: Commands, shop: Shop) -> None:
    flow = Workflow()
    flow.add(shop.fail.options(max_attempts=2).prepare(), name="broken")
    started = await shop.app.start_workflow(flow)
    await worker_of(shop.app).drain(limit=1)
    shown = penstock.run("workflows", "show", started.id).stdout.splitlines()
    assert "◷ broken  scheduled" in shown[-1]
    assert "  due at 20" in shown[-1]
    assert shown[-1].endswith(" UTC, last error ValueError")


async def test_show_groups_a_fan_and_names_its_failed_steps(penstock: Commands, shop: Shop) -> None:
    flow = Workflow()
    steps = [flow.add(shop.fail.prepare(), name=f"page {n}") for n in range(2)]
    started = await shop.app.start_workflow(flow)
    await worker_of(shop.app).drain()
    shown = penstock.run("workflows", "show", started.id).stdout.splitlines()
    told = ", ".join(f"job {started[step.name].id}: ValueError" for step in steps)
    assert shown[-1] == f"  ✗ page ×2: 2 failed ({told})"


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["shop.greet", "shop.greet 2", "shop.greet 10"], "shop.greet"),
        (["page 10", "page 11"], "page"),
        (["page10", "page2"], "page"),
        (["import-a", "import-b"], "import"),
        (["parse", "parsley"], ""),
        (["a", "b"], ""),
        (["one 1"], "one 1"),
    ],
)
def test_names_share_whole_words(names: list[str], told: str) -> None:
    assert common_name(names) == told


def test_a_long_chain_goes_straight_down_where_a_screen_ends() -> None:
    steps = [
        WorkflowStep(
            id=str(n), name=f"s{n}", task="t", state="ready", parents=(str(n - 1),) if n else ()
        )
        for n in range(40)
    ]
    console = Console(width=60)
    with console.capture() as captured:
        console.print(draw_graph(steps))
    lines = captured.get().splitlines()
    assert lines[6] == "                 └▶ ○ s6  ready  job 6"
    assert lines[7] == "                  ↓ ○ s7  ready  job 7"
    assert lines[39] == "                  ↓ ○ s39  ready  job 39"


def test_a_graph_of_many_jobs_is_folded_at_once() -> None:
    steps = [WorkflowStep(id="0", name="fetch", task="fetch", state="completed")]
    parts = [
        WorkflowStep(id=str(n), name=f"parse {n}", task="parse", state="ready", parents=("0",))
        for n in range(1, 10_001)
    ]
    parents = tuple(part.id for part in parts)
    last = WorkflowStep(id="x", name="merge", task="merge", state="blocked", parents=parents)
    fans = group_into_fans([*steps, *parts, last])
    assert [(fan.label, fan.depth) for fan in fans] == [
        ("fetch", 0),
        ("parse ×10,000", 1),
        ("merge", 2),
    ]
