"""`penstock jobs show`: everything about one job."""

import json

import pytest

from penstock import Unique
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.worker import worker_of


async def test_a_job_that_failed_shows_its_errors_and_what_happened(
    penstock: Commands, shop: Shop
) -> None:
    job = await shop.app.enqueue(shop.fail.options(tenant="acme", subject="order:42", tags=["a"]))
    await worker_of(shop.app, name="worker-1").drain()
    shown = penstock.run("jobs", "show", job.id)
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == f"Job {job.id}  shop.fail  failed (exhausted)"
    for name, value in (
        ("queue", "default"),
        ("attempts", "1 begun, 1 of at most 1 failed"),
        ("tenant", "acme"),
        ("subject", "order:42"),
        ("tags", "a"),
    ):
        assert any(line.split(maxsplit=1) == [name, value] for line in lines), name
    assert "  ValueError: no such customer" in lines
    assert "  Traceback (most recent call last):" in lines
    assert "worker worker-1" in shown.stdout
    timeline = shown.stdout.partition("\ntimeline\n")[2].splitlines()
    assert [line.split("  ")[-1].strip() for line in timeline] == [
        "enqueued",
        "attempt 1 began",
        "attempt 1: ValueError",
        "failed",
    ]


async def test_a_job_that_waits_says_why(penstock: Commands, shop: Shop) -> None:
    await shop.app.pause("mail")
    job = await shop.app.enqueue(shop.send, "here", 1.0)
    shown = penstock.run("jobs", "show", job.id)
    assert "why it waits  The queue mail is paused." in shown.stdout
    assert "why it waits  No living worker serves the queue mail." in shown.stdout
    found = json.loads(penstock.run("jobs", "show", job.id, "--json").stdout)
    assert [wait["kind"] for wait in found["waits"]] == ["paused", "no_worker"]


async def test_the_document_has_all_of_it(penstock: Commands, shop: Shop) -> None:
    job = await shop.app.enqueue(shop.greet, "Ada")
    await worker_of(shop.app).drain()
    found = json.loads(penstock.run("jobs", "show", job.id, "--json").stdout)
    assert (found["id"], found["state"], found["result"]) == (job.id, "completed", "Hello, Ada")
    assert (found["args"], found["waits"], found["progress"]) == ({"name": "Ada"}, [], None)
    assert [moment["what"] for moment in found["timeline"]][-1] == "completed"


@pytest.mark.parametrize("job", ["999", "no-number"])
def test_a_job_that_does_not_exist(penstock: Commands, job: str) -> None:
    shown = penstock.run("jobs", "show", job)
    assert (shown.returncode, shown.stdout) == (3, "")
    assert shown.stderr.startswith(f"There is no job {job}.")
    error = json.loads(penstock.run("jobs", "show", job, "--json").stdout)["error"]
    assert (error["kind"], error["exit_code"]) == ("job_not_found", 3)


async def test_it_can_be_followed_to_its_end(penstock: Commands, shop: Shop) -> None:
    job = await shop.app.enqueue(shop.greet, "Ada")
    with Terminal(penstock, "jobs", "show", job.id, "--follow") as terminal:
        terminal.wait_for("why it waits")
        await worker_of(shop.app).drain()
        assert terminal.end() == 0
        assert f"Job {job.id}  shop.greet  completed" in terminal.text
        assert '"Hello, Ada"' in terminal.text


async def test_the_exit_code_of_what_was_followed(penstock: Commands, shop: Shop) -> None:
    failed = await shop.app.enqueue(shop.fail)
    await worker_of(shop.app).drain()
    waiting = await shop.app.enqueue(shop.greet, "Ada")
    assert penstock.run("jobs", "show", failed.id, "--follow").returncode == 5
    late = penstock.run("jobs", "show", waiting.id, "--follow", "--timeout", "200ms")
    assert late.returncode == 6
    assert penstock.run("jobs", "show", waiting.id, "--timeout", "1s").returncode == 2


async def test_a_unique_key_and_who_holds_it_are_shown(penstock: Commands, shop: Shop) -> None:
    unique = shop.greet.options(unique=Unique(key="greet", on_conflict="supersede"))
    first = await shop.app.enqueue(unique, "Ada")
    second = await shop.app.enqueue(unique, "Bo")
    for job, who in ((first, f"job {second.id}"), (second, "it")):
        assert f" greet, held by {who}\n" in penstock.run("jobs", "show", job.id).stdout
    found = json.loads(penstock.run("jobs", "show", first.id, "--json").stdout)
    assert found["held_by"] == {"job": second.id, "until": None}
    refused = penstock.run("jobs", "retry", first.id)
    assert refused.returncode == 4
    assert refused.stdout.endswith(
        f" Job {second.id} now holds the unique key of job {first.id}.\n"
    )
    told = json.loads(penstock.run("jobs", "retry", first.id, "--json").stdout)
    left = {"id": first.id, "why": "held", "held_by": second.id}
    assert told == {"changed": 0, "left": [left]}
    await shop.app.cancel(second)
    assert " greet, held by nobody now\n" in penstock.run("jobs", "show", first.id).stdout
