"""`penstock completion`: a real bash completes commands, options and their values."""

import shutil
import subprocess

import pytest

from tests.cli.command import Commands


def completions(penstock: Commands, line: str) -> list[str]:
    """What bash would offer for a line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    asked = penstock.shell(
        'eval "$(penstock completion bash)"\n'
        f"COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}\n"
        'function="$(complete -p penstock | sed -E "s/.*-F ([^ ]+).*/\\1/")"\n'
        '"$function" penstock && printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("penstock q", ["queues"]),
        ("penstock jobs ", ["list", "show", "retry", "cancel", "unblock", "delete"]),
        ("penstock jobs list --sta", ["--state"]),
        ("penstock jobs list --state sch", ["scheduled"]),
        ("penstock completion z", ["zsh"]),
    ],
)
def test_bash_completes(bare: Commands, line: str, expected: list[str]) -> None:
    assert completions(bare, line) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_can_be_read_by_its_shell(bare: Commands, shell: str) -> None:
    printed = bare.run("completion", shell)
    assert printed.returncode == 0
    assert "_PENSTOCK_COMPLETE" in printed.stdout
    if program := shutil.which(shell):
        checked = subprocess.run([program, "-n"], input=printed.stdout, text=True, check=False)
        assert checked.returncode == 0


def test_another_shell(bare: Commands) -> None:
    assert bare.run("completion", "csh").returncode == 2
