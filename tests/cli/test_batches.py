"""`penstock batches`: look at batches, wait for them, close, cancel and retry them."""

import json

from penstock import BatchHandle
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.worker import worker_of


async def finished(shop: Shop) -> BatchHandle:
    """A batch of which one job completed and one failed."""
    async with shop.app.batch("import", on_end=shop.greet.prepare("Eve"), tenant="acme") as batch:
        await batch.enqueue(shop.greet, "Ada")
        await batch.enqueue(shop.fail)
    await worker_of(shop.app).drain()
    return batch


async def test_a_list_says_how_far_each_is(penstock: Commands, shop: Shop) -> None:
    assert penstock.run("batches", "list").stdout == "There are no such batches.\n"
    done = await finished(shop)
    opened = await shop.app.open_batch("later")
    lines = penstock.run("batches", "list").stdout.splitlines()
    assert lines[0].split()[:4] == ["id", "state", "done", "failed"]
    assert lines[1].split()[:4] == [opened.id, "open", "0/0", "0"]
    assert lines[2].split()[:4] == [done.id, "finished", "2/2", "1"]
    page = json.loads(penstock.run("batches", "list", "--name", "import", "--json").stdout)
    [found] = page["batches"]
    assert (found["id"], found["completed"], found["failed"]) == (done.id, 1, 1)
    short = penstock.run("batches", "list", "--limit", "1")
    assert f"--after {opened.id}" in short.stderr
    assert "import" not in penstock.run("batches", "list", "--state", "open").stdout


async def test_one_is_shown_with_its_counts_and_callbacks(penstock: Commands, shop: Shop) -> None:
    batch = await finished(shop)
    status = await batch.status()
    shown = penstock.run("batches", "show", batch.id).stdout
    assert f"Batch {batch.id}  import  finished" in shown
    assert "100% 2 of 2" in shown
    assert f"job {status.end_job}" in shown
    told = json.loads(penstock.run("batches", "show", batch.id, "--json").stdout)
    assert (told["total"], told["state"], told["end_job"]) == (2, "finished", status.end_job)
    missing = penstock.run("batches", "show", "404")
    assert (missing.returncode, "There is no batch 404" in missing.stderr) == (3, True)
    assert penstock.run("batches", "show", batch.id, "--tenant", "other").returncode == 3


async def test_the_jobs_of_one_are_listed_and_each_names_it(penstock: Commands, shop: Shop) -> None:
    batch = await finished(shop)
    found = json.loads(penstock.run("jobs", "list", "--batch", batch.id, "--json").stdout)["jobs"]
    assert [(job["task"], job["batch"]) for job in found] == [
        ("shop.fail", batch.id),
        ("shop.greet", batch.id),
    ]
    shown = penstock.run("jobs", "show", found[0]["id"]).stdout
    assert any(line.split() == ["batch", batch.id] for line in shown.splitlines())
    dead = json.loads(penstock.run("dead", "list", "--batch", batch.id, "--json").stdout)
    assert [job["id"] for job in dead["jobs"]] == [found[0]["id"]]


async def test_what_failed_is_retried_and_waited_for(penstock: Commands, shop: Shop) -> None:
    batch = await finished(shop)
    done = penstock.run("batches", "retry", batch.id)
    assert (done.returncode, done.stdout) == (0, "1 job was retried.\n")
    late = penstock.run("batches", "wait", batch.id, "--timeout", "0.1s")
    assert (late.returncode, "with 1 job to go" in late.stderr) == (6, True)
    await worker_of(shop.app).drain()
    waited = penstock.run("batches", "wait", batch.id, "--json")
    assert (waited.returncode, json.loads(waited.stdout)["failed"]) == (5, 1)
    assert penstock.run("batches", "show", batch.id, "--watch").returncode == 5


async def test_an_open_one_is_closed_or_cancelled(penstock: Commands, shop: Shop) -> None:
    batch = await shop.app.open_batch()
    await batch.enqueue_many(shop.greet.prepare(name) for name in "abc")
    closed = penstock.run("batches", "close", batch.id)
    assert closed.stdout == f"Batch {batch.id} is closed, with 3 jobs to go.\n"
    unasked = penstock.run("batches", "cancel", batch.id)
    assert (unasked.returncode, "nothing was changed" in unasked.stderr) == (1, True)
    done = penstock.run("batches", "cancel", batch.id, "--yes", "--json")
    assert json.loads(done.stdout) == {"changed": 3, "left": []}
    assert (await batch.status()).cancelled == 3
    again = penstock.run("batches", "cancel", batch.id)
    assert (again.returncode, again.stdout) == (0, "0 jobs were cancelled.\n")
    assert (
        again.stderr == f"No job of batch {batch.id} is pending, so there is nothing to cancel.\n"
    )
    hint = penstock.run("batches", "retry", batch.id).stderr
    assert f"`penstock jobs retry --batch {batch.id} --state cancelled`" in hint


async def test_a_terminal_sees_a_bar_until_the_end(penstock: Commands, shop: Shop) -> None:
    async with shop.app.batch("import") as batch:
        await batch.enqueue(shop.greet, "Ada")
    with Terminal(penstock, "batches", "show", batch.id, "--watch") as terminal:
        terminal.wait_for("0 of 1")
        await worker_of(shop.app).drain()
        assert terminal.end() == 0
        assert "1 of 1" in terminal.text
