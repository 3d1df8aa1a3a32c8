"""Requests from JSON: by a task's name alone, or checked against an app's task."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec
import typer
from msgspec.structs import replace

from penstock.app.app import Penstock
from penstock.cli.database import Reached, find_app, reached_by, visited
from penstock.cli.errors import CommandError
from penstock.cli.options import Where, moment, seconds
from penstock.errors import ConfigError
from penstock.tasks import Options, Request, Unique
from penstock.tasks.keys import fill_template, is_template
from penstock.tasks.options import matching
from penstock.tasks.payload import ARGS_LIMIT, encode_object
from penstock.tasks.settings import TASK_NAME

Values = Mapping[str, Any]
MakeRequest = Callable[[str, dict[str, Any], Values], Request[Any]]

# How JSON has what an option takes.
_READ: dict[str, Callable[[Any], float | datetime]] = {
    "delay": seconds,
    "timeout": seconds,
    "run_at": moment,
    "deadline": moment,
}


def by_name(task: str, args: dict[str, Any], values: Values) -> Request[Any]:
    """A request for a task that is known elsewhere."""
    name = matching("task", task, TASK_NAME)
    options = Options().updated(values)
    if options.unique is not None:
        options = replace(options, unique=_with_key(options.unique, args))
    return Request(name, encode_object(args, ARGS_LIMIT), 1, options)


def _with_key(unique: Unique, args: dict[str, Any]) -> Unique:
    """Which arguments there are, with their defaults, is known to the task's own code only."""
    if unique.key is None:
        raise ConfigError("unique", unique, 'a rule with a "key"; without one name the --app')
    if not is_template(unique.key):
        return unique
    return replace(unique, key=fill_template("unique.key", unique.key, args))


def checked_by(app: Penstock) -> MakeRequest:
    """Requests as the app itself would make them."""

    def make(task: str, args: dict[str, Any], values: Values) -> Request[Any]:
        known = app.tasks.get(task)
        try:
            return known.options(**values).prepare(**args)
        except TypeError as error:
            why = str(error).rstrip(".")
            raise CommandError(f"The arguments do not fit the task {task!r}: {why}.") from error

    return make


def object_from(text: str | bytes, what: str) -> dict[str, Any]:
    """A JSON object, or an error that says what it should have been."""
    try:
        read = msgspec.json.decode(text.decode() if isinstance(text, bytes) else text)
    except UnicodeError:  # bytes that are no UTF-8, also on the command line
        raise typer.BadParameter(f"{what} is no text in UTF-8.") from None
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"{what} is no JSON: {error}. Write it like {EXAMPLE}.") from error
    if not isinstance(read, dict):
        raise typer.BadParameter(f"{what} is no JSON object. Write it like {EXAMPLE}.")
    return read


EXAMPLE = """'{"order": 42}'"""


def from_line(line: dict[str, Any], defaults: Values, make: MakeRequest) -> Request[Any]:
    """A request from a whole line: task, args, and options by their names in Python."""
    fields = dict(line)
    task, args = fields.pop("task", None), fields.pop("args", {})
    if not isinstance(task, str) or not isinstance(args, dict):
        raise CommandError('A line has a "task", a name, and may have "args", an object.')
    options = {name: _read(name, value) for name, value in fields.items()}
    try:
        return make(task, args, {**defaults, **options})
    except TypeError as error:
        raise CommandError(str(error)) from error


def _unique_from(value: Any) -> Any:
    """A rule from its fields: {"key": "document:{document}", "on_conflict": "replace"}."""
    if not isinstance(value, dict):
        return value
    try:
        return Unique(**value)
    except TypeError as error:
        raise CommandError(f'The fields of "unique" do not fit: {error}.') from error


def _read(name: str, value: Any) -> Any:
    if name == "unique":
        return _unique_from(value)
    return _READ[name](value) if name in _READ and isinstance(value, str | int | float) else value


@asynccontextmanager
async def reached_making(
    target: str | None, where: Where
) -> AsyncIterator[tuple[Reached, MakeRequest]]:
    """The queue, and how requests for it are made: by the app's code if one is named."""
    if target is None:
        async with visited(where) as queue:
            yield queue, by_name
        return
    app = find_app(target)
    where.lead(app)
    async with reached_by(app) as queue:
        yield queue, checked_by(app)
