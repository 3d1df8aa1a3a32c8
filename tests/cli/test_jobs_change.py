"""`penstock jobs retry`, `cancel` and `delete`."""

import json

import asyncpg
import pytest

from penstock import JobNotFound
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.worker import ghost, worker_of


async def failed(shop: Shop, number: int) -> list[str]:
    jobs = await shop.app.enqueue_many([shop.fail.prepare() for _ in range(number)])
    await worker_of(shop.app).drain()
    return [job.id for job in jobs]


async def test_named_jobs_change_and_missing_ones_are_counted(
    penstock: Commands, shop: Shop
) -> None:
    ids = await failed(shop, 2)
    done = penstock.run("jobs", "retry", *ids, "999", "nonsense")
    assert done.returncode == 3
    assert done.stdout == (
        "2 jobs were retried. 2 jobs were left unchanged: there is no job with this id.\n"
    )
    for job in ids:
        assert (await shop.app.get(job)).state == "ready"
    done = penstock.run("jobs", "cancel", *ids, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"changed": 2, "left": []}
    done = penstock.run("jobs", "cancel", ids[0], "999", "--json")
    assert json.loads(done.stdout) == {"changed": 1, "left": [{"id": "999", "why": "missing"}]}
    assert penstock.run("jobs", "delete", ids[0]).stdout == "1 job was deleted.\n"
    with pytest.raises(JobNotFound):
        await shop.app.get(ids[0])


async def test_a_state_that_does_not_allow_it(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    job = await shop.app.enqueue(shop.greet, "Ada")
    await ghost(connection, seconds=60)
    done = penstock.run("jobs", "delete", job.id)
    assert done.returncode == 4
    assert done.stdout == "0 jobs were deleted. 1 job was left unchanged: running.\n"
    [ended] = await failed(shop, 1)
    assert penstock.run("jobs", "cancel", ended).stdout == (
        "0 jobs were cancelled. 1 job was left unchanged: failed already.\n"
    )


async def test_a_filter_takes_those_that_the_verb_is_for(penstock: Commands, shop: Shop) -> None:
    ids = await failed(shop, 3)
    done = await shop.app.enqueue(shop.greet, "Ada")
    await worker_of(shop.app).drain()
    waiting = await shop.app.enqueue(shop.greet.options(delay=60), "Bo")
    retried = penstock.run("jobs", "retry", "--queue", "default", "--yes", "--json")
    assert json.loads(retried.stdout) == {"changed": 3, "left": []}
    assert {(await shop.app.get(job)).state for job in ids} == {"ready"}
    assert (await shop.app.get(done)).state == "completed"
    assert (await shop.app.get(waiting)).state == "scheduled"
    penstock.run("jobs", "cancel", "--queue", "default", "--yes")
    assert (await shop.app.get(waiting)).state == "cancelled"
    deleted = penstock.run("jobs", "delete", "--state", "cancelled", "--yes")
    assert deleted.stdout == "4 jobs were deleted.\n"
    assert [job.id for job in (await shop.app.list()).jobs] == [done.id]


async def test_many_are_changed_batch_by_batch(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many([shop.greet.prepare(str(n)) for n in range(1203)])
    done = penstock.run("jobs", "cancel", "--task", "shop.greet", "--yes")
    assert (done.returncode, done.stdout) == (0, "1,203 jobs were cancelled.\n")


async def test_a_dry_run_changes_nothing(penstock: Commands, shop: Shop) -> None:
    ids = await failed(shop, 2)
    shown = penstock.run("jobs", "retry", "--state", "failed", "--dry-run")
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[-1] == "2 jobs would be retried; nothing was changed."
    found = json.loads(penstock.run("jobs", "delete", *ids, "--dry-run", "--json").stdout)
    assert sorted(found.pop("ids")) == sorted(ids)
    assert found == {"dry_run": True, "matched": 2, "more": False}
    assert {(await shop.app.get(job)).state for job in ids} == {"failed"}


async def test_a_filter_asks_first(penstock: Commands, shop: Shop) -> None:
    [job] = await failed(shop, 1)
    with Terminal(penstock, "jobs", "retry", "--state", "failed") as terminal:
        terminal.wait_for("1 job will be retried.\nGo on? [y/N]: ")
        terminal.press("n\n")
        assert terminal.end() == 1
        assert "Nothing was changed." in terminal.text
    assert (await shop.app.get(job)).state == "failed"
    with Terminal(penstock, "jobs", "retry", "--state", "failed") as terminal:
        terminal.wait_for("Go on?")
        terminal.press("y\n")
        assert terminal.end() == 0
    assert (await shop.app.get(job)).state == "ready"


async def test_a_completed_job_runs_again_only_after_a_question(
    penstock: Commands, shop: Shop
) -> None:
    [dead] = await failed(shop, 1)
    done = await shop.app.enqueue(shop.greet, "Ada")
    await worker_of(shop.app).drain()
    asked = penstock.run("jobs", "retry", dead, done.id)
    assert asked.returncode == 1
    assert f"1 job has completed, and will run again: {done.id} (shop.greet).\n" in asked.stderr
    assert (await shop.app.get(dead)).state == "failed"
    found = penstock.run("jobs", "retry", "--state", "failed", "--state", "completed")
    assert "2 jobs will be retried. 1 job has completed, and will run again: " in found.stderr
    assert penstock.run("jobs", "retry", dead, done.id, "--yes").returncode == 0
    assert (await shop.app.get(done)).state == "ready"


async def test_where_nobody_can_answer_nothing_is_changed(penstock: Commands, shop: Shop) -> None:
    [job] = await failed(shop, 1)
    done = penstock.run("jobs", "delete", "--state", "failed")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Use --yes to confirm in advance" in done.stderr
    assert (await shop.app.get(job)).state == "failed"


async def test_ctrl_c_at_the_question(penstock: Commands, shop: Shop) -> None:
    await failed(shop, 1)
    with Terminal(penstock, "jobs", "delete", "--state", "failed") as terminal:
        terminal.wait_for_question("Go on? [y/N]: ")
        terminal.press("\x03")
        assert terminal.end() == 130


@pytest.mark.parametrize("verb", ["retry", "cancel", "delete"])
@pytest.mark.parametrize("which", [[], ["42", "--queue", "mail"]])
def test_jobs_are_named_or_filtered(bare: Commands, verb: str, which: list[str]) -> None:
    refused = bare.run("jobs", verb, *which)
    assert refused.returncode == 2
    assert "name the jobs either by their ids or by at least one filter" in refused.stderr
