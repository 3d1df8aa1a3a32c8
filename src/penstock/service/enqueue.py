"""Turn request bodies into jobs: check them, apply idempotency keys, and limit new queue names."""

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


def request_from(app: Penstock, job: NewJob, caller: Caller) -> Request[Any]:
    """Check a job and prepare it. Raises a Problem that names each wrong field."""
    return _request_from(app, job, caller, "", {})


def requests_from(app: Penstock, jobs: Sequence[NewJob], caller: Caller) -> list[Request[Any]]:
    """Check jobs and prepare them. Raises a Problem for the first job with wrong fields.

    Jobs of one task that set no options share one check of the task's options.
    """
    without_options: dict[str, Task[..., Any]] = {}
    return [
        _request_from(app, job, caller, f"jobs.{index}.", without_options)
        for index, job in enumerate(jobs)
    ]


def _request_from(
    app: Penstock,
    job: NewJob,
    caller: Caller,
    place: str,
    without_options: dict[str, Task[..., Any]],
) -> Request[Any]:
    task = _task(app, job.task, place)
    if misfits := task.arguments.parameters.find_problems(job.args):
        raise _misfit({f"args.{name}": problem for name, problem in misfits.items()}, place)
    if job.options.model_fields_set:
        options = _with_options(task, job.options, caller, place)
    elif (shared := without_options.get(job.task)) is not None:
        options = shared
    else:
        options = without_options[job.task] = _with_options(task, job.options, caller, place)
    try:
        return options.prepare(**job.args)
    except PayloadTooLarge:
        raise
    except PayloadRefused as error:
        raise _misfit({f"args.{error.field}": error.problem}, place) from error
    except (ArgumentsDoNotFit, TypeError) as error:
        raise _misfit({"args": str(error)}, place) from error


def request_with_stored_args(
    app: Penstock, task: str, args: dict[str, Any], options: OptionsBody, caller: Caller
) -> Request[Any]:
    """Prepare a job with stored arguments, which an older version of the task may have written."""
    configured = _with_options(_task(app, task, ""), options, caller, "")
    text = encode_object(args, ARGS_LIMIT)
    settings, defaults = configured.settings, configured.defaults
    return Request(configured.name, text, settings.args_version, defaults)


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
    sent = options.model_dump(exclude_unset=True)
    values = {name: value for name, value in sent.items() if value is not None}
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


def _misfit(problems: dict[str, str], place: str) -> Problem:
    first_problems = islice(problems.items(), MAX_MISFITS)
    fields = [(f"{place}{name}", problem) for name, problem in first_problems]
    detail = "; ".join(f"{field} {problem}" for field, problem in fields[:MAX_MISFITS_IN_DETAIL])
    return Problem(422, "does-not-fit", detail, fields=fields)


# With the header `Idempotency-Key` a repeated request is done once and gets the same answer. The
# database stores the key with the jobs of the request, in one transaction: see
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
        description="A request that is sent again with the same key and body is done only once, "
        "and gets an answer with the same ids. A different body with a key that was used within "
        "the last 7 days gets a 409. Each tenant has its own keys.",
    ),
]


def with_idempotency_key(
    requests: Sequence[Request[Any]], key: str | None, body: BaseModel
) -> list[Request[Any]]:
    """Return the jobs of one request with the request's idempotency key.

    The first job gets the key itself, so another request with the same key collides with it. The
    other jobs get the key, a space and their index. No header can contain such a key, because a
    key in a header has no spaces.
    """
    if key is None:
        return list(requests)
    if any(request.options.idempotency_key not in (None, key) for request in requests) or (
        len(requests) > 1 and any(request.options.idempotency_key for request in requests)
    ):
        problem = f"cannot be combined with the header {IDEMPOTENCY_HEADER}: send only one of them"
        fields = [("options.idempotency_key", problem)]
        raise Problem(422, "does-not-fit", f"options.idempotency_key {problem}.", fields=fields)
    sent_fields = body.model_dump(mode="json", exclude_unset=True)
    whole_body = msgspec.json.encode(sent_fields, order="deterministic")
    fingerprint = hashlib.sha256(type(body).__name__.encode() + whole_body).digest()
    return [
        replace(
            request,
            options=replace(request.options, idempotency_key=f"{key} {index}" if index else key),
            fingerprint=fingerprint,
        )
        for index, request in enumerate(requests)
    ]


def key_not_supported(path: str) -> Problem:
    """Return the Problem for an idempotency key on a route that ignores keys.

    The request is refused, so that no client relies on a key that has no effect.
    """
    detail = (
        f"POST {path} does not support idempotency keys. Send it without the header "
        f"{IDEMPOTENCY_HEADER}, which is for enqueueing jobs and uploading files."
    )
    return Problem(
        422, "idempotency-key-not-taken", detail, fields=[(f"header.{IDEMPOTENCY_HEADER}", detail)]
    )


# Names of queues


# A name that nobody has used for this long no longer counts.
NAME_LIFETIME_S: Final = 3600.0
# The keys of one tenant may name a tenth of the queues, so that others can still name theirs.
TENANT_FRACTION: Final = 10


class QueueNames:
    """Limits how many queues callers may name within an hour, not counting the queues of tasks.

    Each new name becomes a queue in every list, gauge and scan.
    """

    def __init__(self, tasks: Registry, max_names: int) -> None:
        self._tasks = tasks
        self._max_names = max_names
        # By tenant: when each name was last used, the latest last.
        self._used: dict[str | None, dict[str, float]] = {}

    def expect_room(self, requests: Sequence[Request[Any]], caller: Caller) -> None:
        """Count the queues of new jobs. If there are too many, raises a Problem and counts none."""
        names = {
            request.options.queue
            for request in requests
            if request.options.queue != self._tasks.get(request.task).settings.defaults.queue
        }
        self._count(names, caller, "options.queue")

    def expect_room_for(self, queue: str, caller: Caller) -> None:
        """Count a queue that gets settings. Settings keep the queue in every list for good."""
        self._count({queue}, caller, "queue")

    def _count(self, names: set[str], caller: Caller, field: str) -> None:
        if names:
            names = names - {task.settings.defaults.queue for task in self._tasks}
        if not names:
            return
        now = time.monotonic()
        used = self._used.setdefault(caller.tenant, {})
        while used and (oldest := next(iter(used.items())))[1] < now - NAME_LIFETIME_S:
            del used[oldest[0]]
        max_names = self._max_names
        if caller.tenant is not None:
            max_names = max(max_names // TENANT_FRACTION, 1)
        if len(names | used.keys()) > max_names:
            detail = (
                f"Callers may use at most {max_names:,} queues per hour that no task declares, and "
                f"have used {len(used):,}. Declare queues with tasks, or tell jobs apart by "
                "subject or tag."
            )
            raise Problem(422, "too-many-queues", detail, fields=[(field, detail)])
        for name in names:
            used.pop(name, None)
            used[name] = now
