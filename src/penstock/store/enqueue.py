"""Convert requests to the arrays that the SQL function `enqueue` takes."""

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
    """The result of an enqueue, with one entry for each request in each list.

    `lanes` and `priorities` are None if no setting in the database changed them.
    """

    ids: list[int]
    duplicates: list[bool] | None
    lanes: list[str] | None
    priorities: list[int] | None


class JobLinks(NamedTuple):
    """The batch or workflow that jobs are enqueued into, and the jobs that they wait for.

    Each list has one entry per job. `adder` is the running job that adds these jobs to its own
    batch, or None if no job does.
    """

    batch: int | None = None
    workflow: int | None = None
    steps: list[str | None] | None = None
    parents: list[str | None] | None = None
    children: list[str | None] | None = None
    adder: int | None = None


NO_LINKS = JobLinks()


def parameters(
    requests: Sequence[AnyRequest], options: str, links: JobLinks = NO_LINKS
) -> tuple[Any, ...]:
    """Return the parameters of `enqueue`, with None for a column that holds only defaults.

    `timeout` is always sent, because its default in SQL differs.
    """
    distinct = {id(request.options): request.options for request in requests}.values()
    all_options = [request.options for request in requests]

    def column(name: str, convert: Callable[[Any], Any] | None = None) -> list[Any] | None:
        default = getattr(_DEFAULTS, name)
        if (
            all(getattr(option, name) == default for option in distinct)
            and name not in _SQL_DIFFERS
        ):
            return None
        values = [getattr(option, name) for option in all_options]
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
    """Return a request in the JSON form of `enqueue_stored`, which enqueues jobs from SQL.

    Fields with default values are left out, except the timeout. So are `run_at`, `deadline`, the
    tenant and the idempotency key, which are decided when the request is enqueued.
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

# The fields of a stored request, besides its task.
REQUEST_PARTS = frozenset(
    {*_PLAIN_FIELDS, *_JSON_FIELDS, "args", "args_version", "timeout", "unique", "tenant"}
)
# Limits and unique keys may be derived from the arguments, and `requested_by` asked for these very
# arguments.
_PARTS_OF_ARGS = frozenset({"args", "args_version", "limits", "unique", "requested_by"})


def parts_to_keep(changed: Collection[str], *, is_other_call: bool) -> frozenset[str]:
    """Return the parts of a stored request that stay when the parts in `changed` are replaced.

    `is_other_call` says that the task or the arguments change. Then the parts that may depend on
    the arguments do not stay either.
    """
    kept = REQUEST_PARTS - set(changed)
    return kept - _PARTS_OF_ARGS if is_other_call else kept


# In SQL the default is no timeout, so that jobs inserted by hand are not aborted.
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
    # Two arguments that differ only in the order of their fields are the same.
    args = msgspec.json.encode(msgspec.json.decode(request.args), order="deterministic")
    return hashlib.sha256(request.task.encode() + b"\0" + args).digest()
