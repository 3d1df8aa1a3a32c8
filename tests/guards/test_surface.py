"""What users see is what was kept: names, calls, commands, routes, errors, metrics."""

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import penstock
from penstock import Penstock, errors
from penstock.cli import app as commands
from penstock.cli import errors as command_errors
from penstock.cli.framework import exit_code_of
from penstock.service import Service
from penstock.service.problems import from_error
from penstock_apps.knowledge import errors as knowledge_errors
from penstock_apps.knowledge.knowledge import Knowledge
from tests.fixtures.database import Database
from tests.fixtures.service import asked, service_of
from tests.fixtures.worker import worker_of
from tests.guards.kept import compare
from tests.guards.renames import api_of_today, names_of_today

WIDTH = 100


def test_the_names_that_are_imported_are_as_they_were_kept() -> None:
    lines: list[str] = []
    for name in penstock.__all__:
        lines += [name, *(f"    {member}" for member in members(getattr(penstock, name)))]
    now = "\n".join(lines) + "\n"
    compare("names.txt", now, names_of_today, alike=annotations_as_written)


def annotations_as_written(text: str) -> str:
    """Without what only shows whether a module keeps its annotations as text or as types."""
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z_])", "", re.sub(r"['~]|\+(?=[A-Z])", "", text))


def members(thing: Any) -> Iterator[str]:
    """How it is called, and what it has that is ours and public."""
    if not inspect.isclass(thing):
        yield signature(thing)
        return
    if "__init__" in vars(thing):
        yield f"__init__{signature(thing.__init__)}"
    for name, member in sorted(inspect.getmembers(thing)):
        home = next((kind for kind in thing.__mro__ if name in vars(kind)), object)
        if name.startswith("_") or not home.__module__.startswith("penstock"):
            continue
        found = inspect.unwrap(member) if callable(member) else member
        kind = "property" if isinstance(member, property) else signature(found)
        yield f"{name}{kind}" if kind.startswith("(") else f"{name}: {kind}"


def signature(thing: Any) -> str:
    if not callable(thing):
        return type(thing).__name__
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "builtin"
    plain = [each.replace(default=plainly(each.default)) for each in found.parameters.values()]
    written = str(found.replace(parameters=plain))
    # Python 3.11 shows it otherwise.
    return re.sub(r"\*<class '([\w.]+)'>", r"Unpack[\1]", written)


def plainly(default: Any) -> Any:
    """A default as it is written; of an object only its kind, as what is in it may differ."""
    if default is inspect.Parameter.empty or isinstance(default, str | int | float | None):
        return default
    return type(default)


def test_the_help_of_every_command_is_as_it_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    command = typer.main.get_command(commands)
    compare("help.txt", "\n".join(helps(command, None, "penstock")), alike=one_after_another)


def one_after_another(text: str) -> str:
    """In the order of their names: that in which people see them is in the help of the root."""
    return "\n$ ".join(sorted(text.removeprefix("$ ").rstrip("\n").split("\n\n$ ")))


def helps(command: Any, parent: Any, name: str) -> Iterator[str]:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.terminal_width = WIDTH
    yield f"$ {context.command_path} --help\n{context.get_help().rstrip()}\n"
    if hasattr(command, "list_commands"):
        for below in command.list_commands(context):
            yield from helps(command.get_command(context, below), context, below)


def test_the_routes_are_as_they_were_kept() -> None:
    app = Penstock("postgresql://nowhere/x")
    Knowledge(app)
    document = Service(app).asgi.openapi()
    del document["info"]["version"]
    compare("openapi.json", json.dumps(document, indent=1, sort_keys=True) + "\n", api_of_today)


def test_what_errors_mean_to_programs_is_as_it_was_kept() -> None:
    """Of each: its bases, the status and the type over HTTP, the exit code and the kind in JSON."""
    kinds = {
        kind
        for module in (errors, command_errors, knowledge_errors)
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, errors.PenstockError)
    }
    lines = [
        f"{kind.__name__}({', '.join(base.__name__ for base in kind.__bases__)}): {meaning(kind)}"
        for kind in sorted(kinds, key=lambda kind: (kind.__name__, kind.__module__))
    ]
    compare("errors.txt", "\n".join(lines) + "\n")


def meaning(kind: type[errors.PenstockError]) -> str:
    bare = kind.__new__(kind)
    # What some must know to be told.
    bare.__dict__.update(sqlstate=None, is_sent=False, _problem="")
    problem = from_error(bare)
    exit_code = exit_code_of(bare)
    return (
        f"{problem.status} urn:penstock:{problem.kind},"
        f" exit {exit_code.value}, {command_errors.kind_of(bare)}"
    )


async def test_the_metrics_are_as_they_were_kept(database: Database) -> None:
    app = Penstock(database.url)

    @app.task(name="greet")
    async def greet() -> None: ...

    async with app, service_of(app) as service, asked(service.asgi) as http:
        async with worker_of(app):
            await app.wait(await app.enqueue(greet))
        await app.enqueue(greet)
        text = (await http.get("http://localhost/metrics")).text
    described = [line for line in text.splitlines() if line.startswith("# ")]
    samples = {re.sub(r'="[^"]*"', "", line.rpartition(" ")[0]) for line in text.splitlines()}
    labelled = sorted(one for one in samples if one.startswith("penstock"))
    compare("metrics.txt", "\n".join([*sorted(described), *labelled]) + "\n")
