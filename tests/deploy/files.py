"""The files of deploy/, read as those read them that they are for."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import typer
import yaml

from penstock.cli import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def dockerfile() -> list[tuple[str, str]]:
    """The instructions and what follows each, lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.M)
    joined = re.sub(r"\\\n\s*", " ", text)
    lines = [line for line in joined.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def instructions(word: str) -> list[str]:
    return [rest for each, rest in dockerfile() if each == word]


def as_list(text: str) -> list[str]:
    """What is written as JSON, so that no shell stands between."""
    found: list[str] = json.loads(text)
    return found


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def keda() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "keda.yaml").read_text())
    return found


def unit(path: Path) -> dict[str, list[str]]:
    """The settings of a unit; one may be given several times."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text().splitlines():
        name, mark, value = line.partition("=")
        if mark and not line.startswith(("#", ";", "[")):
            found[name].append(value)
    return found


def command_of(path: Path) -> list[str]:
    """What a unit runs, after the name of the program."""
    [line] = unit(path)["ExecStart"]
    program, *arguments = shlex.split(line)
    assert program.endswith("/penstock")
    return arguments


def understood(arguments: list[str]) -> dict[str, Any]:
    """The options of a command line as `penstock` reads it, without running it."""
    name, *rest = arguments
    commands: Any = typer.main.get_command(app)
    with commands.make_context("penstock", list(arguments)) as context:
        command = commands.get_command(context, name)
        with command.make_context(name, rest, parent=context) as inner:
            params: dict[str, Any] = inner.params
            return params


def seconds(text: str) -> float:
    """`45s`, `45`."""
    return float(text.removesuffix("s"))
