"""`penstock` itself: help, version, errors."""

from importlib.metadata import version

import pytest

from tests.cli.command import Commands


def test_version(bare: Commands) -> None:
    assert bare.run("--version").stdout == f"penstock {version('penstock')}\n"


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_command_without_boxes(bare: Commands, flag: str) -> None:
    shown = bare.run(flag)
    assert shown.returncode == 0
    for command in ("work", "migrate", "db", "demo", "bench"):
        assert f"\n  {command} " in shown.stdout
    assert "╭" not in shown.stdout


@pytest.mark.parametrize("command", ["work", "migrate", "db", "demo", "bench"])
def test_the_help_of_a_command_has_an_example(bare: Commands, command: str) -> None:
    shown = bare.run(command, "--help")
    assert shown.returncode == 0
    if command != "db":
        assert f"penstock {command}" in shown.stdout.partition("Options")[0].partition("\n")[2]


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
