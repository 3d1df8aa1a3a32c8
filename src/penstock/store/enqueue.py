"""Requests as the arrays that the enqueue function takes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.tasks import Options, Request
from penstock.tasks.unique import Unique

AnyRequest = Request[Any]

_DEFAULTS = Options()


class Stored(NamedTuple):
    """What came of an enqueue, one entry for each request.

    Lanes and priorities are None where nothing but the request itself decides on them.
    """

    ids: list[int]
    duplicates: list[bool] | None
    lanes: list[str] | None
    priorities: list[int] | None


class Links(NamedTuple):
    """What jobs that are enqueued together belong to and wait for; a list has one entry a job.

    `adder` is the running job of the batch that adds them, if one does.
    """

    batch: int | None = None
    workflow: int | None = None
    steps: list[str | None] | None = None
    parents: list[str | None] | None = None
    children: list[str | None] | None = None
    adder: int | None = None


NO_LINKS = Links()


def parameters(
    requests: Sequence[AnyRequest], options: str, links: Links = NO_LINKS
) -> tuple[Any, ...]:
    """The parameters of `enqueue`. A column that is all default is not sent."""
    chosen = {id(request.options): request.options for request in requests}.values()
    given = [request.options for request in requests]

    def column(name: str, convert: Callable[[Any], Any] | None = None) -> list[Any] | None:
        default = getattr(_DEFAULTS, name)
        if all(getattr(option, name) == default for option in chosen) and name not in _SQL_DIFFERS:
            return None
        values = [getattr(option, name) for option in given]
        return [convert(value) for value in values] if convert else values

    versions = [request.args_version for request in requests]
    keys = column("idempotency_key")
    return (
        [request.task for request in requests],
        [request.args for request in requests],
        versions if any(version != 1 for version in versions) else None,
        column("queue"),
        column("lane"),
        column("priority"),
        column("delay"),
        column("run_at"),
        column("max_attempts"),
        column("timeout"),
        column("tenant"),
        column("subject"),
        column("requested_by"),
        column("tags", _texts),
        column("meta"),
        column("retry"),
        column("deadline"),
        keys,
        keys and [_fingerprint(request) for request in requests],
        None,
        options,
        column("limits", _texts),
        column("unique", _rule),
        *links[:-1],
    )


def stored_form(request: AnyRequest) -> dict[str, Any]:
    """The request as JSON that `enqueue_stored` takes: for a job that is enqueued by the database.

    What is a default is left out; the tenant, the time and the keys are for the one who enqueues.
    """
    options = request.options
    form: dict[str, Any] = {
        "task": request.task,
        "args": msgspec.Raw(request.args.encode()),
        "timeout": options.timeout,
    }
    if request.args_version != 1:
        form["args_version"] = request.args_version
    for name in _PLAIN_FIELDS:
        if (value := getattr(options, name)) != getattr(_DEFAULTS, name):
            form[name] = value
    for name in _JSON_FIELDS:
        if (text := getattr(options, name)) is not None:
            form[name] = msgspec.Raw(text.encode())
    if options.unique is not None:
        form["unique"] = options.unique.stored()
    return form


_PLAIN_FIELDS = (
    *("queue", "lane", "limits", "priority", "delay", "max_attempts"),
    *("subject", "requested_by", "tags"),
)
_JSON_FIELDS = ("meta", "retry")

# The parts of a stored request, besides its task.
REQUEST_PARTS = frozenset(
    {*_PLAIN_FIELDS, *_JSON_FIELDS, "args", "args_version", "timeout", "unique", "tenant"}
)
# Limits and unique keys may be made of arguments, and `requested_by` asked for just these.
_PARTS_OF_ARGS = frozenset({"args", "args_version", "limits", "unique", "requested_by"})


def parts_to_keep(given: Collection[str], *, is_other_call: bool) -> frozenset[str]:
    """The parts of a stored request that stay if only the `given` ones are set.

    `is_other_call` says that the task or the arguments change.
    """
    kept = REQUEST_PARTS - set(given)
    return kept - _PARTS_OF_ARGS if is_other_call else kept


# The SQL's default for a timeout is none, so that hand-made jobs are not cut off.
_SQL_DIFFERS = frozenset({"timeout"})


def _texts(texts: tuple[str, ...]) -> str | None:
    return msgspec.json.encode(texts).decode() if texts else None


def _rule(unique: Unique | None) -> str | None:
    return None if unique is None else msgspec.json.encode(unique.stored()).decode()


def _fingerprint(request: AnyRequest) -> bytes | None:
    if request.options.idempotency_key is None:
        return None
    if request.fingerprint is not None:
        return request.fingerprint
    # The fields' order is no difference: a mapping may come in any.
    args = msgspec.json.encode(msgspec.json.decode(request.args), order="deterministic")
    return hashlib.sha256(request.task.encode() + b"\0" + args).digest()
