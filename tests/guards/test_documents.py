"""What each command tells programs with --json has the fields that were kept."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.cli import app
from tests.cli.command import Commands
from tests.cli.test_examples import JUST_READY, SHORT, commands_in
from tests.cli.test_examples import forked as forked
from tests.cli.test_examples import shown as shown
from tests.fixtures.database import Database, copied
from tests.fixtures.server import PostgresServer
from tests.guards.kept import compare

# They wait for a worker, ask a question, or write no document but a script or a key.
LEFT_OUT = ("--wait", "--follow", "completion", "keys create", "keys rotate", "migrate --sql")


def firsts(command: Any, name: str = "penstock") -> Iterator[tuple[str, str]]:
    """Each command that takes --json, with the first of its examples that ends by itself."""
    takes = any("--json" in getattr(each, "opts", ()) for each in command.params)
    lines = [line for line in getattr(command.callback, "examples", ()) if line in SHORT]
    lines = [line for line in lines if not any(part in line for part in LEFT_OUT)]
    if takes and lines:
        yield name, lines[0]
    if hasattr(command, "list_commands"):
        below = {each: command.get_command(None, each) for each in command.list_commands(None)}
        # What stands alone looks at the queue, before commands of groups change it.
        for each in sorted(below, key=lambda each: hasattr(below[each], "list_commands")):
            yield from firsts(below[each], f"{name} {each}")


@pytest.fixture
async def commands(
    forked: None,
    shown: Database,
    postgres: PostgresServer,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Commands]:
    async with copied(postgres, shown, request.node) as database:
        async with database.connect() as connection:
            await connection.execute(JUST_READY)
        commands = commands_in(tmp_path, database)
        yield commands
        commands.close()


# Some sixty processes, one after the other.
@pytest.mark.timeout(300)
def test_documents_of_commands_keep_their_fields(commands: Commands) -> None:
    lines: list[str] = []
    for name, example in firsts(typer.main.get_command(app)):
        line = example if "--json" in example else f"{example} --json"
        done = commands.shell(line)
        lines.append(f"{name}: {done.returncode}")
        # One document, or one a line.
        try:
            documents = [json.loads(done.stdout)]
        except ValueError:
            documents = [json.loads(each) for each in done.stdout.splitlines()]
        lines += [f"    {path}" for path in sorted(set(paths(documents[0])))]
    compare("documents.txt", "\n".join(lines) + "\n", alike=by_command)


def by_command(text: str) -> str:
    """In the order of the commands' names."""
    return "\n".join(sorted(text.rstrip("\n").removeprefix("penstock ").split("\npenstock ")))


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Where there is something: `jobs[].id`."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from paths(each, f"{at}.{name}" if at else name)
    elif isinstance(value, list):
        yield f"{at}[]"
        for each in value:
            yield from paths(each, f"{at}[]")
    else:
        yield at
