"""Requests for jobs from what a caller sends, checked against the tasks' signatures."""

from __future__ import annotations

from itertools import islice
from typing import Any

from penstock.app.app import Penstock
from penstock.errors import (
    ArgumentsDoNotFit,
    ConfigError,
    Misuse,
    PayloadRefused,
    PayloadTooLarge,
    UnknownTask,
)
from penstock.service.auth import Caller, requester
from penstock.service.models.jobs import NewJob, OptionsBody
from penstock.service.problems import MAX_MISFITS_IN_DETAIL, MAX_MISFITS_TOLD, Problem
from penstock.tasks import Request, Task
from penstock.tasks.payload import ARGS_LIMIT, encode_object


def request_from(app: Penstock, given: NewJob, caller: Caller, place: str = "") -> Request[Any]:
    """The request; a Problem names each field that does not fit, below `place`."""
    task = _task(app, given.task, place)
    if wrong := task.arguments.parameters.misfits(given.args):
        raise _misfit({f"args.{name}": told for name, told in wrong.items()}, place)
    options = _with_options(task, given.options, caller, place)
    try:
        return options.prepare(**given.args)
    except PayloadTooLarge:
        raise
    except PayloadRefused as error:
        raise _misfit({f"args.{error.field}": error.problem}, place) from error
    except (ArgumentsDoNotFit, TypeError) as error:
        raise _misfit({"args": str(error)}, place) from error


def request_with_args(
    app: Penstock, task: str, args: dict[str, Any], options: OptionsBody, caller: Caller
) -> Request[Any]:
    """A request with arguments as stored, perhaps in the form of an earlier version of the task."""
    known = _with_options(_task(app, task, ""), options, caller, "")
    text = encode_object(args, ARGS_LIMIT)
    return Request(known.name, text, known.settings.args_version, known.defaults)


def _task(app: Penstock, name: str, place: str) -> Task[..., Any]:
    try:
        return app.tasks.get_public(name)
    except UnknownTask as error:
        raise _misfit({"task": str(error)}, place) from error


def _with_options(
    task: Task[..., Any], options: OptionsBody, caller: Caller, place: str
) -> Task[..., Any]:
    try:
        return task.options(**_values(options, caller))
    except PayloadTooLarge:
        raise
    except (ConfigError, PayloadRefused) as error:
        raise _misfit(dict([_option(error)]), place) from error


def _values(options: OptionsBody, caller: Caller) -> dict[str, Any]:
    given = options.model_dump(exclude_unset=True)
    values = {name: value for name, value in given.items() if value is not None}
    values["requested_by"] = requester(caller, options.requested_by)
    if caller.tenant is not None:
        values.setdefault("tenant", caller.tenant)
    return values


def _option(error: ConfigError | PayloadRefused) -> tuple[str, str]:
    if isinstance(error, Misuse):
        return f"options.{error.setting}", str(error)
    if isinstance(error, ConfigError):
        return f"options.{error.setting}", f"must be {error.allowed}"
    return f"options.{error.field}", error.problem


def _misfit(wrong: dict[str, str], place: str) -> Problem:
    named = islice(wrong.items(), MAX_MISFITS_TOLD)
    fields = [(f"{place}{name}", told) for name, told in named]
    detail = "; ".join(f"{field} {told}" for field, told in fields[:MAX_MISFITS_IN_DETAIL])
    return Problem(422, "does-not-fit", detail, fields=fields)
