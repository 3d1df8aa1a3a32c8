"""docs/settings.md says what code, commands and HTTP can set, and what one of them cannot."""

import re
from collections.abc import Set
from inspect import signature
from typing import Any

import click
from typer.main import get_command

from penstock import Penstock
from penstock.cli import app as cli
from penstock.service.routes.failed import Chosen, Redrive
from penstock.service.schemas import (
    EventBody,
    KeyBody,
    LaneBody,
    LimitBody,
    OptionsBody,
    PersonBody,
    QueueBody,
    RotationBody,
    ScheduleBody,
)
from penstock.tasks.options import Options
from tests.docs.test_settings import PAGE

# What names the thing itself, or who changes it.
NAMING = {"self", "name", "queue", "lane", "key", "by", "payload", "keep_admin", "password_hash"}
# Dead letters are chosen by their ids, or by what they agree in.
CHOSEN = dict.fromkeys(
    ("ids", "filter", "task", "subject", "tag", "reason", "error", "batch", "since", "until"),
    "which",
)
# Where one surface writes a setting in parts, or in another form.
PARTS = {
    "args": "what", "task": "what", "options": "what", "arguments": "what", "tags": "tag",
    "run_at": "at", "window": "windows", "pause": "paused", "unique_key": "unique",
    "scope": "scopes", "except_tenant": "except_tenants", "lease": "liveness",
    "stop_wait": "stopping", "log_jobs": "log",
}  # fmt: skip
# Of a worker, which has several of what a job has one.
SEVERAL = {"queue": "queues", "tenant": "tenants"}
BODIES = {"a queue": QueueBody, "a lane": LaneBody, "a limit": LimitBody, "an event": EventBody,
          "a schedule": ScheduleBody, "a job": OptionsBody, "a key": KeyBody,
          "a key that replaces another": RotationBody, "a person": PersonBody,
          "dead letters to redrive": Redrive, "dead letters to purge": Chosen,
          }  # fmt: skip


def rows() -> dict[str, list[str]]:
    """The cells of each row of the table."""
    [section] = re.findall(r"^### Where each can be set$(.*?)^### ", PAGE.read_text(), re.M | re.S)
    lines = [line.strip("|").split("|") for line in section.splitlines() if line[:2] == "| "]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[1:]}


def without(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell.partition("without")[2]))


def words(names: Set[str], what: str = "") -> set[str]:
    """Settings in one wording, however a surface writes them."""
    own = {"a worker": SEVERAL}.get(what, {})
    if what.startswith("dead letters"):
        own = {**CHOSEN, "jobs": "which"}
    return {own.get(name) or PARTS.get(name, name) for name in names}


def in_code(what: str, cell: str) -> set[str]:
    if what == "a job":
        return words(set(Options.__struct_fields__))
    call = getattr(Penstock, re.findall(r"`(\w+)`", cell)[0])
    own = {"paused"} if what == "a queue" else set()
    # Elsewhere a schedule keeps whatever is not named.
    naming = NAMING | {"keep"} if what == "a schedule" else NAMING
    return words(set(signature(call).parameters) - naming | own, what)


def by_command(what: str, cell: str) -> set[str]:
    command: Any = get_command(cli)
    [path] = re.findall(r"`penstock ([a-z ]+)`", cell.partition("without")[0])
    for name in path.split():
        command = command.get_command(click.Context(command), name)
    others = {"paused"} if "`resume`" in cell else set()
    return words({parameter.name for parameter in command.params} | others, what)


def test_the_table_of_what_can_be_set_where_is_true() -> None:
    table = rows()
    assert len(table) > 8
    for what, (code, command, http) in table.items():
        settings = in_code(what, code)
        if command:
            assert settings - by_command(what, command) == without(command), what
        if http:
            taken = words(set(BODIES[what].model_fields), what)
            assert settings - taken == without(http), what
