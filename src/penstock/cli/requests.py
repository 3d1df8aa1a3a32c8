"""Build requests from JSON, either by the name of the task alone or checked by an app's code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec
import typer
from msgspec.structs import replace

from penstock.app.app import Penstock
from penstock.cli.database import OpenQueue, find_app, open_queue_of_app, open_unscoped_queue
from penstock.cli.errors import CommandError
from penstock.cli.options import DatabaseOptions, parse_duration, parse_time
from penstock.errors import ConfigError
from penstock.tasks import Options, Request, Unique
from penstock.tasks.keys import fill_template, is_template
from penstock.tasks.options import check_name
from penstock.tasks.payload import ARGS_LIMIT, encode_object
from penstock.tasks.settings import TASK_NAME

Values = Mapping[str, Any]
MakeRequest = Callable[[str, dict[str, Any], Values], Request[Any]]

# How the value of an option is parsed from JSON.
_PARSERS: dict[str, Callable[[Any], float | datetime]] = {
    "delay": parse_duration,
    "timeout": parse_duration,
    "run_at": parse_time,
    "deadline": parse_time,
}

EXAMPLE = """'{"order": 42}'"""


def request_by_name(task: str, args: dict[str, Any], values: Values) -> Request[Any]:
    """Build a request from the name of a task, without the task's code."""
    name = check_name("task", task, TASK_NAME)
    options = Options().updated(values)
    if options.unique is not None:
        options = replace(options, unique=_with_key(options.unique, args))
    return Request(name, encode_object(args, ARGS_LIMIT), 1, options)


def _with_key(unique: Unique, args: dict[str, Any]) -> Unique:
    """Return the unique rule with its key filled in from the arguments.

    Raises `ConfigError` for a rule without a key, because such a rule needs the parameters and
    defaults of the task, which only its code knows.
    """
    if unique.key is None:
        raise ConfigError(
            "unique",
            unique,
            'a rule with a "key", unless --app names the app whose code makes the key',
        )
    if not is_template(unique.key):
        return unique
    return replace(unique, key=fill_template("unique.key", unique.key, args))


def requests_checked_by(app: Penstock) -> MakeRequest:
    """Return a function that builds requests and checks them against the app's tasks."""

    def make(task: str, args: dict[str, Any], values: Values) -> Request[Any]:
        known_task = app.tasks.get(task)
        try:
            return known_task.options(**values).prepare(**args)
        except TypeError as error:
            reason = str(error).rstrip(".")
            raise CommandError(f"The arguments do not fit the task {task!r}: {reason}.") from error

    return make


def parse_json_object(text: str | bytes, subject: str) -> dict[str, Any]:
    """Parse a JSON object. Raises `BadParameter` with a sentence that begins with `subject`."""
    try:
        value = msgspec.json.decode(text.decode() if isinstance(text, bytes) else text)
    except UnicodeError:  # The bytes are not UTF-8, which happens on the command line too.
        raise typer.BadParameter(f"{subject} is not UTF-8 text.") from None
    except msgspec.DecodeError as error:
        raise typer.BadParameter(
            f"{subject} is not JSON: {error}. Write it like {EXAMPLE}."
        ) from error
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{subject} is not a JSON object. Write it like {EXAMPLE}.")
    return value


def request_from_line(line: dict[str, Any], defaults: Values, make: MakeRequest) -> Request[Any]:
    """Build a request from a line's JSON object: task, args, and options by their Python names."""
    fields = dict(line)
    task, args = fields.pop("task", None), fields.pop("args", {})
    if not isinstance(task, str) or not isinstance(args, dict):
        raise CommandError(
            'Each line needs the name of a task as "task". The arguments, "args", must '
            "be a JSON object."
        )
    options = {name: _parse_option(name, value) for name, value in fields.items()}
    try:
        return make(task, args, {**defaults, **options})
    except TypeError as error:
        raise CommandError(str(error)) from error


def _parse_unique(value: Any) -> Any:
    """Build a rule from its fields: {"key": "document:{document}", "on_conflict": "replace"}."""
    if not isinstance(value, dict):
        return value
    try:
        return Unique(**value)
    except TypeError as error:
        raise CommandError(f'The fields of "unique" are not valid: {error}.') from error


def _parse_option(name: str, value: Any) -> Any:
    if name == "unique":
        return _parse_unique(value)
    return (
        _PARSERS[name](value)
        if name in _PARSERS and isinstance(value, str | int | float)
        else value
    )


@asynccontextmanager
async def open_queue_and_requests(
    target: str | None, db: DatabaseOptions
) -> AsyncIterator[tuple[OpenQueue, MakeRequest]]:
    """Open the queue, and yield it with a function that builds requests.

    If an app is named, the app's code builds and checks the requests.
    """
    if target is None:
        async with open_unscoped_queue(db) as queue:
            yield queue, request_by_name
        return
    app = find_app(target)
    db.apply_to(app)
    async with open_queue_of_app(app) as queue:
        yield queue, requests_checked_by(app)
