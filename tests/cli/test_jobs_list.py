"""`penstock jobs list`: which jobs, and how they are shown."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.worker import worker_of


def listed(penstock: Commands, *arguments: str) -> dict[str, Any]:
    done = penstock.run("jobs", "list", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_the_newest_come_first_live_and_ended_alike(penstock: Commands, shop: Shop) -> None:
    done = await shop.app.enqueue(shop.greet, "Ada")
    failed = await shop.app.enqueue(shop.fail)
    await worker_of(shop.app).drain()
    waiting = await shop.app.enqueue(shop.greet.options(delay=3600, tenant="acme"), "Bo")
    found = listed(penstock)
    assert [job["id"] for job in found["jobs"]] == [waiting.id, failed.id, done.id]
    assert [job["state"] for job in found["jobs"]] == ["scheduled", "failed", "completed"]
    assert found["after"] is None
    [newest, *_] = found["jobs"]
    assert (newest["args"], newest["tenant"]) == ({"name": "Bo"}, "acme")
    assert newest["created_at"].endswith("Z")
    assert datetime.fromisoformat(newest["created_at"]).tzinfo == UTC


async def test_filters_narrow_it_down(penstock: Commands, shop: Shop) -> None:
    plain = await shop.app.enqueue(shop.greet, "Ada")
    mail = await shop.app.enqueue(
        shop.greet.options(queue="mail", tenant="acme", subject="order:42", tags=["slow"]), "Bo"
    )
    failed = await shop.app.enqueue(shop.fail)
    await worker_of(shop.app).drain()
    for filters, expected in (
        (["--queue", "mail"], [mail.id]),
        (["--tenant", "acme"], [mail.id]),
        (["--subject", "order:42", "--tenant", "acme"], [mail.id]),
        (["--tag", "slow"], [mail.id]),
        (["--task", "shop.fail"], [failed.id]),
        (["--state", "failed", "--state", "completed"], [failed.id, plain.id]),
        (["--queue", "mail", "--state", "failed"], []),
    ):
        assert [job["id"] for job in listed(penstock, *filters)["jobs"]] == expected, filters


async def test_a_page_says_where_the_next_begins(penstock: Commands, shop: Shop) -> None:
    jobs = await shop.app.enqueue_many([shop.greet.prepare(str(n)) for n in range(5)])
    newest_first = [job.id for job in reversed(jobs)]
    first = listed(penstock, "--limit", "2")
    assert [job["id"] for job in first["jobs"]] == newest_first[:2]
    second = listed(penstock, "--limit", "2", "--after", first["after"])
    assert [job["id"] for job in second["jobs"]] == newest_first[2:4]
    told = penstock.run("jobs", "list", "--limit", "2")
    assert told.stderr == f"There may be more: --after {first['after']}, or --all.\n"


async def test_all_pages_are_one_document(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many([shop.greet.prepare(str(n)) for n in range(1203)])
    assert len(listed(penstock, "--all")["jobs"]) == 1203
    shown = penstock.run("jobs", "list", "--all")
    assert shown.stdout.count("shop.greet") == 1203


async def test_since_and_until_are_when_jobs_were_enqueued(penstock: Commands, shop: Shop) -> None:
    async with shop.app:
        first = await shop.app.enqueue(shop.greet, "Ada")
        between = (await shop.app.get(first)).created_at
        second = await shop.app.enqueue(shop.greet, "Bo")
        third = await shop.app.enqueue(shop.greet, "Cy")
    later = (await shop.app.get(second)).created_at.isoformat()
    assert [job["id"] for job in listed(penstock, "--since", later)["jobs"]] == [
        third.id,
        second.id,
    ]
    assert [job["id"] for job in listed(penstock, "--until", later)["jobs"]] == [first.id]
    assert listed(penstock, "--until", between.isoformat())["jobs"] == []
    assert len(listed(penstock, "--since", "1h")["jobs"]) == 3
    assert listed(penstock, "--until", "1h")["jobs"] == []


async def test_nothing_is_said_to_be_nothing(penstock: Commands) -> None:
    shown = penstock.run("jobs", "list")
    assert (shown.returncode, shown.stdout) == (0, "There are no such jobs.\n")


@pytest.mark.parametrize("which", ["batch", "workflow"])
async def test_what_is_not_there_has_no_jobs_to_list(penstock: Commands, which: str) -> None:
    for more in ((), ("--all",)):
        done = penstock.run("jobs", "list", f"--{which}", "99", *more)
        assert (done.returncode, f"There is no {which} 99." in done.stderr) == (3, True)


async def test_in_a_pipe_nothing_is_cut_off_or_coloured(penstock: Commands, shop: Shop) -> None:
    name = "a" * 150
    await shop.app.enqueue_many([shop.greet.options(subject=name).prepare("Ada")])
    shown = penstock.run("jobs", "list")
    assert "\x1b" not in shown.stdout
    assert not any(line.endswith(" ") for line in shown.stdout.splitlines())
    assert shown.stdout.splitlines()[0].split() == [
        *("id", "state", "task", "queue", "tries", "enqueued", "subject"),
    ]


@pytest.mark.parametrize("columns", [80, 100, 140])
async def test_at_a_terminal_it_fits(penstock: Commands, shop: Shop, columns: int) -> None:
    long = shop.fail.options(tenant="a-tenant-of-some-length", subject=f"document:{'4' * 60}")
    await shop.app.enqueue(long)
    await worker_of(shop.app).drain()
    with Terminal(penstock, "jobs", "list", columns=columns) as terminal:
        assert terminal.end() == 0
        lines = terminal.text.splitlines()
        assert all(len(line) <= columns for line in lines)
        assert any(re.match(r"\d+ +failed +shop\.fail +default ", line) for line in lines)
        assert "exhausted:" in terminal.text
        assert "\x1b[" in terminal.raw


async def test_ids_are_whole_however_narrow_it_is(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await connection.execute("SELECT setval('penstock.job_id_seq', 123456789012)")
    job = await shop.app.enqueue(shop.greet.options(queue="a-queue-of-some-length"), "Ada")
    for columns in (40, 60, 80, 90):
        with Terminal(penstock, "jobs", "list", columns=columns) as terminal:
            assert terminal.end() == 0
            assert all(len(line) <= columns for line in terminal.text.splitlines())
            assert f"{job.id}  ready" in terminal.text


async def test_no_color_is_respected(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    with Terminal(penstock, "jobs", "list", NO_COLOR="1") as terminal:
        assert terminal.end() == 0
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]", terminal.raw)


async def test_a_reader_that_leaves_early_is_no_error(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many([shop.greet.prepare("x" * 500) for _ in range(900)])
    done = penstock.shell("penstock jobs list --all --json | head -c 10")
    assert (done.stdout, done.stderr) == ('{"jobs":[{', "")


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--state", "lost"], ["--since", "soon"]])
def test_what_makes_no_sense(bare: Commands, arguments: list[str]) -> None:
    assert bare.run("jobs", "list", *arguments).returncode == 2
