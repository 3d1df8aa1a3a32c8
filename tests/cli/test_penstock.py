"""`penstock` itself: help, version, errors."""

from importlib.metadata import version

import pytest

from penstock.cli.exits import Exit
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
