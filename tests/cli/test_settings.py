"""`penstock queues|lanes|limits|plans|tenants`: what changes settings, and what it says."""

import asyncio
import json
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import asyncpg
import pytest

from tests.cli.command import Commands
from tests.insights.rows import lease

Result = CompletedProcess[str]
Run = Callable[..., Result]


@pytest.fixture
def run(penstock: Commands) -> Run:
    def run(line: str, *more: str) -> Result:
        return penstock.run(*line.split(), *more, NO_COLOR="1")

    return run


def said(done: Result, code: int = 0) -> str:
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.strip() if code == 0 else done.stderr.strip()


def document(done: Result) -> Any:
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


# Queues


def test_a_queue_is_changed_and_said_to_be_so(run: Run) -> None:
    nights = ("--window", "mon-fri 22:00-06:00", "--timezone", "Europe/Berlin")
    done = run("queues set imports --fair --ageing 1m --late-after 5m", *nights)
    assert said(done) == (
        "The queue imports takes turns by tenant; 1m 00s of waiting count as 1 of priority; "
        "open mon-fri 22:00-06:00 (Europe/Berlin); late after 5m 00s."
    )
    assert "No waiting job and no worker uses the queue imports" in done.stderr
    again = document(run("queues set imports --lane-key args.account --ageing none --json"))
    assert again == {
        "name": "imports",
        "fair": True,
        "lane_key": "args.account",
        "ageing": None,
        "windows": {"open": ["mon-fri 22:00-06:00"], "timezone": "Europe/Berlin"},
        "late_after": 300.0,
        "paused": False,
    }
    assert said(run("queues set imports --no-window --no-fair --late-after none")) == (
        "The queue imports has one lane."
    )


def test_a_lane_key_without_turns_is_remarked(run: Run) -> None:
    done = run("queues set imports --lane-key task")
    assert "the queue imports is not fair" in done.stderr
    assert done.returncode == 0


NONSENSE = (
    ("queues set imports", "nothing to change"),
    ("queues set imports --timezone UTC", "--timezone can only be used with --window"),
    ("queues set imports --window 1:00-2:00 --no-window", "cannot be used together"),
    ("queues set imports --late-after soon", "not a duration"),
    ("queues set imports --window nights", "The setting windows is 'nights'"),
    ("queues set imports --window 1:00-2:00 --timezone Mars", "The setting timezone is 'Mars'"),
    ("queues set imports --lane-key colour", "The setting lane_key is 'colour'"),
    ("lanes set imports acme --weight 5000", "The setting weight is 5000"),
    ("limits set openai --slots many", "not a whole number"),
    ("limits set openai --slots -1", "The setting slots is -1"),
    ("limits set openai --rate often", "500/min"),
    ("limits set openai --burst 5", "left out unless the limit has a rate"),
    ("limits set openai --burst 5", "The setting burst is 5.0"),
    ("limits set openai --slots none", "`penstock limits remove`"),
    ("limits set lane:imports --slots 5", "it must be lane:QUEUE:LANE"),
    ("limits set a*b --slots 5", "one *, at its end"),
    ("limits close openai", "--for"),
    ("limits close openai --for 0s", "it must be more than 0; `penstock limits open`"),
    ("limits close account:* --for 5s", "one by one"),
    ("queues set imports --late-after 0s", "it must be more than 0 seconds, or none."),
    ("plans set gold --priority 101", "The setting priority is 101"),
    ("tenants set acme --plan glod", "existing plans: none yet"),
)


def test_what_makes_no_sense_is_refused_with_the_remedy(run: Run) -> None:
    for line, message in NONSENSE:
        assert message in " ".join(said(run(line), code=2).replace("│", " ").split()), line


# Lanes


def test_a_lane_is_changed_paused_and_forgotten(run: Run) -> None:
    run("queues set imports --fair")
    assert said(run("lanes set imports acme --weight 3 --pause")) == (
        "The lane acme of the queue imports gets 3 jobs in each turn; it is paused."
    )
    assert document(run("lanes set imports acme --resume --window 1:00-2:00 --json")) == {
        "queue": "imports",
        "lane": "acme",
        "weight": 3,
        "windows": {"open": ["01:00-02:00"], "timezone": "UTC"},
        "late_after": None,
        "paused": False,
    }
    gone = "Nothing is set for the lane acme of imports any more."
    assert said(run("lanes remove imports acme")) == gone
    assert said(run("lanes remove imports acme"), code=3) == (
        "Nothing is set for the lane acme of the queue imports."
    )


def test_a_lane_of_a_queue_that_is_not_fair_is_remarked(run: Run) -> None:
    done = run("lanes set imports acme --weight 3")
    assert "`penstock queues set imports --fair` makes it fair." in done.stderr


# Limits


def test_a_limit_is_set_changed_and_taken_away(run: Run) -> None:
    assert said(run("limits set openai --slots 10 --rate 600/min")) == (
        "openai is limited: at most 10 at once, 10/s, 10 in a burst."
    )
    changed = document(run("limits set openai --slots none --burst 500 --json"))
    assert changed == {"key": "openai", "slots": None, "rate": 10.0, "burst": 500.0}
    assert said(run("limits set customer:* --slots 2")) == (
        "Each customer:* by itself is limited: at most 2 at once."
    )
    assert said(run("limits remove openai")) == "openai is not limited any more."
    done = run("limits remove openai --json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["error"]["kind"] == "setting_not_found"


def test_a_key_is_closed_and_opened(run: Run) -> None:
    run("limits set openai --rate 5/s")
    assert (
        said(run("limits close openai --for 30s"))
        == "The key openai is closed: no job that needs it starts for 30.0 s."
    )
    assert document(run("limits open openai --json")) == {"key": "openai", "was_closed": True}
    done = run("limits open openai")
    assert (said(done), done.stderr) == ("openai was not closed.", "")
    assert run("limits open opneai").stderr == "There is no limit opneai. Did you mean openai?\n"


def test_only_what_has_a_rate_can_be_closed(run: Run) -> None:
    run("limits set openai --slots 5")
    assert "`penstock limits set openai --slots 0`" in said(run("limits close openai --for 5s"), 3)
    near = "There is no limit opneai to close. Did you mean openai?"
    assert said(run("limits close opneai --for 5s"), 3) == near
    near = "There is no limit opneai. Did you mean openai?"
    assert said(run("limits remove opneai"), 3) == near
    assert [each["key"] for each in document(run("limits list --json"))["limits"]] == ["openai"]


def test_limits_set_warns_of_an_unknown_queue_or_lane(run: Run) -> None:
    run("queues set imports --fair")
    assert run("limits set queue:imports --slots 5").stderr == ""
    assert run("limits set lane:imports:acme --slots 5").stderr == ""
    assert run("limits set lane:*  --slots 5").stderr == ""
    for key in ("queue:inports", "lane:inports:acme"):
        done = run(f"limits set {key} --slots 5")
        assert done.returncode == 0
        assert "uses the queue inports. Did you mean imports?" in done.stderr


async def test_a_limit_of_a_task_that_no_worker_knows_is_remarked(
    run: Run, connection: asyncpg.Connection
) -> None:
    await lease(connection, "ada")
    done = await asyncio.to_thread(run, "limits set task:rendr --slots 5")
    known = await asyncio.to_thread(run, "limits set task:render --slots 5")
    assert done.stderr == "No worker knows a task rendr. Did you mean render?\n"
    assert known.stderr == ""


def test_a_star_alone_says_what_it_is(run: Run) -> None:
    assert said(run("limits set * --slots 5")).startswith("Each key without a limit of its own")


# Plans and tenants


def test_plans_and_tenants_are_set_listed_and_removed(run: Run) -> None:
    assert said(run("plans list")) == "There are no plans."
    assert said(run("plans set gold --priority 10 --weight 5 --late-after 1m")) == (
        "The plan gold adds 10 to priorities; a tenant's lane gets 5 jobs in each turn; "
        "late after 1m 00s."
    )
    assert said(run("tenants list")) == "Nothing is set for tenants."
    assert said(run("tenants set acme --plan gold")) == "The tenant acme has the plan gold."
    run("tenants set beta --late-after 2m")
    assert [line.split() for line in said(run("plans list")).splitlines()] == [
        ["plan", "priority", "weight", "late", "after"],
        ["gold", "+10", "5", "1m", "00s"],
    ]
    assert [line.split() for line in said(run("tenants list")).splitlines()] == [
        ["tenant", "plan", "late", "after"],
        ["acme", "gold", "never"],
        ["beta", "none", "2m", "00s"],
    ]
    page = document(run("tenants list --limit 1 --json"))
    assert ([each["name"] for each in page["tenants"]], page["after"]) == (["acme"], "acme")
    assert document(run("tenants list --after acme --plan gold --json"))["tenants"] == []
    assert "1 tenant has it" in said(run("plans remove gold"), code=2)
    assert said(run("tenants set acme --plan none")) == "The tenant acme has no plan."
    assert said(run("plans remove gold")) == "The plan gold was removed."
    assert said(run("plans remove gold"), code=3) == "There is no plan gold."
    assert said(run("tenants remove acme")) == "Nothing is set for the tenant acme any more."
    assert said(run("tenants remove acme"), code=3) == "Nothing is set for the tenant acme."
