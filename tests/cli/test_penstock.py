"""`penstock` itself: help, version, errors."""

import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest
import typer

from penstock.cli import app
from penstock.cli.framework import Exit
from tests.cli.command import Commands


def test_version(bare: Commands) -> None:
    assert bare.run("--version").stdout == f"penstock {version('penstock')}\n"


COMMANDS = (
    *("up", "work", "serve"),
    *("enqueue", "jobs", "dead", "batches", "workflows", "schedules", "events"),
    *("queues", "lanes", "limits", "plans", "tenants", "retention"),
    *("keys", "people", "audit"),
    *(
        "workers",
        "stats",
        "health",
        "top",
        "doctor",
        "migrate",
        "db",
        "demo",
        "bench",
        "completion",
    ),
    *("ingest", "search", "knowledge"),  # of an application
)


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_command_in_order_without_boxes(bare: Commands, flag: str) -> None:
    shown = bare.run(flag)
    assert shown.returncode == 0
    listed = shown.stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    assert tuple(line.split()[0] for line in listed.splitlines()) == COMMANDS
    assert "╭" not in shown.stdout
    assert "..." not in listed


@pytest.mark.parametrize(
    "name",
    [
        *("jobs", "dead", "batches", "workflows", "schedules", "events"),
        *(
            "queues",
            "lanes",
            "limits",
            "plans",
            "tenants",
            "retention",
            *("keys", "people"),
            "db",
        ),
    ],
)
def test_the_help_of_a_group_ends_with_examples(bare: Commands, name: str) -> None:
    told = bare.run(name, "--help").stdout.partition("\nExamples:\n")[2].splitlines()
    assert 2 <= len(told) <= 3
    assert all(line.startswith(f"  penstock {name} ") for line in told)


def test_help_names_the_exit_codes(bare: Commands) -> None:
    shown = bare.run("--help").stdout
    for code in Exit:
        assert f"{code.value:>3}  {code.meaning}" in shown


def test_an_error_is_one_message_and_a_traceback_only_on_request(bare: Commands) -> None:
    failed = bare.run("work", "nowhere")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith("There is no module nowhere, ")
    assert failed.stderr.count("\n") == 1
    for shown in (
        bare.run("--traceback", "work", "nowhere"),
        bare.run("work", "nowhere", PENSTOCK_TRACEBACK="1"),
    ):
        assert shown.returncode == 1
        assert "Traceback (most recent call last)" in shown.stderr


def test_the_root_says_of_each_command_what_it_says_of_itself() -> None:
    root: Any = typer.main.get_command(app)
    for name in root.list_commands(None):
        command = root.get_command(None, name)
        paragraph = command.loaded.help.partition("\n\n")[0].replace("\n", " ")
        expected = "Find what is wrong, and what to do." if name == "doctor" else paragraph
        assert command.help == expected, name


# What the commands, but not the root, import.
LISTED = """
import sys
from penstock.cli import app
app({arguments}, standalone_mode=False)
print(*sorted(name for name in sys.modules if name.startswith(("penstock.cli.", "penstock_apps."))))
"""


def imported_by(bare: Commands, *arguments: str) -> set[str]:
    """The modules of the command line that a command imports."""
    shown = subprocess.run(
        [sys.executable, "-c", LISTED.format(arguments=list(arguments))],
        env=bare.environment,
        cwd=bare.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.splitlines()[-1].split())


def test_help_imports_no_command_but_its_own(bare: Commands) -> None:
    root: Any = typer.main.get_command(app)
    commands = {root.get_command(None, name).module for name in root.list_commands(None)}
    assert imported_by(bare, "--help") & commands == set()
    own = root.get_command(None, "jobs").module
    assert imported_by(bare, "jobs", "list", "--help") & commands == {own}
