"""The command line on a database with the tables of knowledge, and a folder to take in."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Commands
from tests.fixtures.database import Database
from tests.knowledge.scene import Scene

KEYS = "# Keys\n\nMake a second key, let all services use it, then revoke the first one.\n"
TRAVEL = "# Travel\n\nBook trains four weeks ahead; the cheapest seat is the right one.\n"


@pytest.fixture
def penstock(tmp_path: Path, knowledge_database: Database, objects: Path) -> Iterator[Commands]:
    """The command, with a database that has the tables of knowledge."""
    commands = Commands(tmp_path, knowledge_database.url)
    commands.environment["PENSTOCK_KNOWLEDGE_STORAGE"] = str(objects)
    yield commands
    commands.close()


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    folder = tmp_path / "handbook"
    (folder / "office").mkdir(parents=True)
    (folder / "keys.md").write_text(KEYS)
    (folder / "office" / "travel.md").write_text(TRAVEL)
    (folder / ".hidden.md").write_text("nobody sees this")
    return folder


def said(penstock: Commands, *arguments: str, code: int = 0) -> Any:
    ended = penstock.run(*arguments, "--json")
    assert ended.returncode == code, ended.stderr
    return json.loads(ended.stdout)


async def said_with_help(
    penstock: Commands, scene: Scene, *arguments: str, code: int = 0, as_json: bool = True
) -> Any:
    """What a command says that waits for others to bring files in, as is done here meanwhile.

    A command that does the work itself starts a child process, which takes seconds. Not for what
    waits already: it may be in before the command looks.
    """
    run = penstock.start(*arguments, "--no-work", *(["--json"] if as_json else []))
    while run.process.poll() is None:
        await scene.drain()
        await asyncio.sleep(0.02)
    assert run.end() == code, run.log
    return json.loads(run.output) if as_json else run.output
