"""`penstock events`, and what `penstock jobs show` says of steps and waits."""

import json

from penstock import Context
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.fixtures.worker import worker_of


async def test_show_lists_steps_and_send_resumes_the_job(penstock: Commands, shop: Shop) -> None:
    @shop.app.task
    async def order(ctx: Context) -> str:
        await ctx.step("reserve", abs, -3)
        await ctx.sleep(0)
        answer = await ctx.wait_for_event("approved:42", timeout=3600)
        return str(answer["by"])

    job = await shop.app.enqueue(order.options(tenant="acme"))
    await worker_of(shop.app).drain()
    shown = penstock.run("jobs", "show", job.id)
    assert "why it waits  It waits for the event approved:42, until " in shown.stdout
    assert "`penstock events send approved:42 --tenant acme` sends it." in shown.stdout
    blocked = penstock.run("jobs", "list", "--state", "blocked").stdout.splitlines()
    assert blocked[1].endswith("waits for the event approved:42")
    lines = [line.split() for line in shown.stdout.partition("\nsteps\n")[2].splitlines()[:2]]
    assert [line[3:5] for line in lines] == [["step", "reserve"], ["sleep", "1"]]

    sent = penstock.run("events", "send", "approved:42", '{"by": "Ada"}', "--tenant", "acme")
    assert sent.stdout.strip() == "Event 1 was sent: approved:42. 1 job goes on."
    await worker_of(shop.app).drain()
    found = json.loads(penstock.run("jobs", "show", job.id, "--json").stdout)
    assert (found["state"], found["result"]) == ("completed", "Ada")
    kept = [(step["kind"], step["name"], step["note"]) for step in found["steps"]]
    assert kept[0] == ("step", "reserve", None)
    assert kept[2] == ("event", "approved:42:1", "got event 1")

    listed = penstock.run("events", "list")
    assert "approved:42" in listed.stdout
    assert '{"by":"Ada"}' in listed.stdout
    [event] = json.loads(penstock.run("events", "list", "--json").stdout)["events"]
    assert (event["id"], event["payload"], event["tenant"]) == ("1", {"by": "Ada"}, "acme")


async def test_pages_of_events_are_turned(penstock: Commands, shop: Shop) -> None:
    ids = [(await shop.app.send_event(f"approved:{n}")).id for n in range(3)]
    told = penstock.run("events", "list", "--limit", "2")
    assert told.stderr == f"There may be more: --after {ids[1]}.\n"
    page = json.loads(penstock.run("events", "list", "--limit", "2", "--json").stdout)
    assert ([event["id"] for event in page["events"]], page["after"]) == (ids[:0:-1], ids[1])
    rest = json.loads(penstock.run("events", "list", "--after", page["after"], "--json").stdout)
    assert ([event["id"] for event in rest["events"]], rest["after"]) == ([ids[0]], None)
    refused = penstock.run("events", "list", "--after", "nonsense")
    assert (refused.returncode, "it must be the id of an event" in refused.stderr) == (2, True)


async def test_a_payload_that_is_no_json_is_refused(penstock: Commands, shop: Shop) -> None:
    done = penstock.run("events", "send", "approved:42", "Ada")
    assert done.returncode == 2
    assert "not JSON" in done.stderr
    assert "No event is kept." in penstock.run("events", "list").stdout


async def test_a_job_that_sleeps_or_polls_says_so(penstock: Commands, shop: Shop) -> None:
    @shop.app.task
    async def nap(ctx: Context, *, polls: bool) -> None:
        if polls:
            await ctx.poll("words", lambda: None, every=600)
        await ctx.sleep(600)

    for polls, told in ((False, "It sleeps until "), (True, "It asks whether words is there")):
        job = await shop.app.enqueue(nap, polls=polls)
        await worker_of(shop.app).drain()
        shown = penstock.run("jobs", "show", job.id).stdout
        assert told in shown
    assert "1 poll, no answer yet" in shown
