"""Requests for jobs, made from what a caller sends: checked, and given an idempotency key."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
from fastapi import Header
from msgspec.structs import replace
from pydantic import BaseModel

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
from penstock.service.problems import MAX_MISFITS, MAX_MISFITS_IN_DETAIL, Problem, described
from penstock.service.schemas import NewJob, OptionsBody
from penstock.tasks import Registry, Request, Task
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


def request_with_stored_args(
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
        return task.options(**_option_values(options, caller))
    except PayloadTooLarge:
        raise
    except (ConfigError, PayloadRefused) as error:
        raise _misfit(dict([_option_misfit(error)]), place) from error


def _option_values(options: OptionsBody, caller: Caller) -> dict[str, Any]:
    given = options.model_dump(exclude_unset=True)
    values = {name: value for name, value in given.items() if value is not None}
    values["requested_by"] = requester(caller, options.requested_by)
    if caller.tenant is not None:
        values.setdefault("tenant", caller.tenant)
    return values


def _option_misfit(error: ConfigError | PayloadRefused) -> tuple[str, str]:
    if isinstance(error, Misuse):
        return f"options.{error.setting}", str(error)
    if isinstance(error, ConfigError):
        return f"options.{error.setting}", f"must be {error.allowed}"
    return f"options.{error.field}", error.problem


def _misfit(wrong: dict[str, str], place: str) -> Problem:
    named = islice(wrong.items(), MAX_MISFITS)
    fields = [(f"{place}{name}", told) for name, told in named]
    detail = "; ".join(f"{field} {told}" for field, told in fields[:MAX_MISFITS_IN_DETAIL])
    return Problem(422, "does-not-fit", detail, fields=fields)


# The header `Idempotency-Key`: a request that is sent again is done once, and answered again. The
# database keeps the key with the jobs of the request, in one transaction: see
# `claim_idempotency_keys`. A key stands for the whole body, so the same key with another body is
# refused.


IDEMPOTENCY_HEADER: Final = "idempotency-key"
IDEMPOTENCY_KEY_PATTERN: Final = described(
    r"^[\x21-\x7e]{1,255}$", "at most 255 visible ASCII characters without spaces"
)
IdempotencyKey = Annotated[
    str | None,
    Header(
        pattern=IDEMPOTENCY_KEY_PATTERN,
        description="Sent again with the same key and body, the request is done once, and the "
        "answer has the same ids. Another body with a key that was used within 7 days is a 409. "
        "A key belongs to a tenant.",
    ),
]


def with_idempotency_key(
    requests: Sequence[Request[Any]], key: str | None, body: BaseModel
) -> list[Request[Any]]:
    """The requests of one body under its key; the first bears it, so that any other body meets it.

    The keys of the others hold a space, which no header can.
    """
    if key is None:
        return list(requests)
    if any(each.options.idempotency_key not in (None, key) for each in requests) or (
        len(requests) > 1 and any(each.options.idempotency_key for each in requests)
    ):
        told = f"is given beside the header {IDEMPOTENCY_HEADER}: give one of them"
        fields = [("options.idempotency_key", told)]
        raise Problem(422, "does-not-fit", f"options.idempotency_key {told}.", fields=fields)
    fields_given = body.model_dump(mode="json", exclude_unset=True)
    whole_body = msgspec.json.encode(fields_given, order="deterministic")
    fingerprint = hashlib.sha256(type(body).__name__.encode() + whole_body).digest()
    return [
        replace(
            each,
            options=replace(each.options, idempotency_key=f"{key} {place}" if place else key),
            fingerprint=fingerprint,
        )
        for place, each in enumerate(requests)
    ]


def key_not_supported(path: str) -> Problem:
    """The answer to a key where none is kept: who relies on it should know."""
    told = (
        f"POST {path} keeps no idempotency keys. Send it without the header {IDEMPOTENCY_HEADER}, "
        "which is for enqueueing jobs and uploading files."
    )
    return Problem(
        422, "idempotency-key-not-taken", told, fields=[(f"header.{IDEMPOTENCY_HEADER}", told)]
    )


# Names of queues


# A name that nobody has used for so long makes room for another.
FORGOTTEN_AFTER_S: Final = 3600.0
# A key that is bound to a tenant may use this part of them, so that it keeps no others from theirs.
TENANT_SHARE: Final = 10


class QueueNames:
    """The names of late that no task has as its queue. Each is a queue of its own in every list,
    gauge and scan, so there is a bound on what one server lets in.
    """

    def __init__(self, tasks: Registry, most: int) -> None:
        self._tasks = tasks
        self._most = most
        # By tenant; the name that was used last stands last.
        self._used: dict[str | None, dict[str, float]] = {}

    def expect_room(self, requests: Sequence[Request[Any]], caller: Caller) -> None:
        """A Problem for a name too many; nothing is taken then."""
        names = {
            request.options.queue
            for request in requests
            if request.options.queue != self._tasks.get(request.task).settings.defaults.queue
        }
        self._take(names, caller, "options.queue")

    def expect_room_for(self, queue: str, caller: Caller) -> None:
        """The same for a queue that gets settings, since these put it in every list for good."""
        self._take({queue}, caller, "queue")

    def _take(self, names: set[str], caller: Caller, field: str) -> None:
        if names:
            names = names - {task.settings.defaults.queue for task in self._tasks}
        if not names:
            return
        now = time.monotonic()
        used = self._used.setdefault(caller.tenant, {})
        while used and (oldest := next(iter(used.items())))[1] < now - FORGOTTEN_AFTER_S:
            del used[oldest[0]]
        most = self._most if caller.tenant is None else max(self._most // TENANT_SHARE, 1)
        if len(names | used.keys()) > most:
            told = (
                f"Within an hour callers may name {most:,} queues that no task names, and named "
                f"{len(used):,}. Give tasks their queues, or tell jobs apart by subject or tag."
            )
            raise Problem(422, "too-many-queues", told, fields=[(field, told)])
        for name in names:
            used.pop(name, None)
            used[name] = now
