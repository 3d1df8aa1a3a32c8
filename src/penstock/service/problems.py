"""Turn errors into HTTP answers: problem details (RFC 9457) with a stable `type` for programs."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from penstock import errors
from penstock.store.errors import database_error

_DESCRIPTIONS: dict[str, str] = {}


def described(pattern: str, words: str) -> str:
    """Return the pattern of a field, and register `words`, which complete "Should be …".

    >>> Id = Annotated[str, Field(pattern=described(r"^[1-9][0-9]*$", "a number such as 42"))]
    """
    _DESCRIPTIONS[pattern] = words
    return pattern


def description_of(pattern: str) -> str | None:
    """Return the words that are registered for a pattern, or None."""
    return _DESCRIPTIONS.get(pattern)


def misfit_message(misfit: Mapping[str, Any]) -> str:
    """Turn pydantic's error about a field into a message."""
    context = misfit.get("ctx", {})
    match misfit["type"]:
        case "string_pattern_mismatch":
            words = description_of(context["pattern"]) or "written in another way"
            return f"Should be {words}"
        case "value_error":
            return f"Should be {context['error']}"
    return str(misfit["msg"])


def is_utf8(text: bytes) -> bool:
    """Return whether these bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


logger = logging.getLogger("penstock.service")

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"

TITLES: Final = {
    400: "Bad request",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "Does not fit",
    429: "Too many requests",
    431: "Head too large",
    500: "Our fault",
    503: "Unavailable",
}
# The first class that matches gives the status. An error of no class here is a bug, and a 500.
STATUSES: Final[tuple[tuple[type[errors.PenstockError], int], ...]] = (
    (errors.JobNotFound, 404),
    (errors.BatchNotFound, 404),
    (errors.WorkflowNotFound, 404),
    (errors.ScheduleNotFound, 404),
    (errors.KeyNotFound, 404),
    (errors.PersonNotFound, 404),
    (errors.TenantUnguarded, 409),
    (errors.RolesUnfit, 409),
    (errors.NameTaken, 409),
    (errors.UnknownTask, 422),
    (errors.PayloadTooLarge, 413),
    (errors.PayloadRefused, 422),
    (errors.ArgumentsDoNotFit, 422),
    (errors.ConfigError, 422),
    (errors.TenantMismatch, 403),
    (errors.NotAllowed, 403),
    (errors.TenantMissing, 422),
    (errors.DatabaseLost, 503),
    (errors.DatabaseReadOnly, 503),
    (errors.DatabaseExhausted, 503),
    (errors.DatabaseBusy, 503),
    (errors.DatabaseDenied, 503),
    (errors.DatabaseError, 500),
    (errors.SchemaError, 503),
    (errors.JobConflict, 409),
    (errors.PenstockError, 409),
)
# Only the log names hosts and databases, for those who run the service.
DATABASE_DETAILS: Final[dict[type[errors.DatabaseError], str]] = {
    errors.DatabaseLost: "The database does not answer.",
    errors.DatabaseReadOnly: "The database takes no writes at the moment.",
    errors.DatabaseExhausted: "The database has run out of room.",
    errors.DatabaseBusy: "The database was busy and cancelled this request.",
    errors.DatabaseDenied: "The database has refused the login of the service.",
    errors.DatabaseError: "The database has refused this request.",
}
MAYBE_DONE: Final = (
    "The request may have been carried out. Check that, or send it again with the same "
    "idempotency key."
)
NOTHING_DONE: Final = "Nothing was done."
TRY_AGAIN: Final = "Try again in a moment."
# After other errors, such as a violated constraint, the same request would fail again.
TRANSIENT_ERRORS: Final = (
    errors.DatabaseLost,
    errors.DatabaseReadOnly,
    errors.DatabaseExhausted,
    errors.DatabaseBusy,
)
LOG_INTERVAL_S: Final = 60.0
COMMON_STATUSES: Final = (400, 401, 403, 503)
BODY_STATUSES: Final = (408, 413, 415, 422)
PLAIN_TYPES: Final = str | int | float | None
RETRY_AFTER_S: Final = {503: 1, 429: 1}
# An answer names at most this many invalid fields.
MAX_MISFITS: Final = 100
MAX_MISFITS_IN_DETAIL: Final = 5


class Misfit(BaseModel):
    """A field that does not fit, and what is wrong with it."""

    field: str = Field(
        description="The place of the field, such as `args.name`, `options.queue` or `query.limit`."
    )
    problem: str


class ProblemModel(BaseModel):
    """An error, as `application/problem+json`."""

    type: str = Field(
        description=(
            "`urn:penstock:` and a word that names the kind of error. Programs can rely on it."
        )
    )
    title: str
    status: int
    detail: str = ""
    fields: list[Misfit] = Field(
        [], description=f"The fields that do not fit, at most {MAX_MISFITS} of them."
    )
    about: dict[str, Any] | None = Field(
        None, description="What the error is about, such as `job_id`, `key` or `state`."
    )


class Problem(Exception):
    """An error that the service sends to the client as its response."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str = "",
        *,
        fields: list[tuple[str, str]] | None = None,
        headers: dict[str, str] | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.status = status
        self.kind = kind
        self.detail = detail
        self.fields = fields or []
        self.headers = headers or {}
        self.about = about
        super().__init__(detail)


def raises(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of a route's errors for OpenAPI."""
    content = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemModel"}}}
    return {
        status: {"description": TITLES[status], "content": content, "model": ProblemModel}
        for status in statuses
    }


def document_common_problems(document: dict[str, Any]) -> None:
    """Add to the OpenAPI document the errors with which the middleware may answer any route."""
    for path, operations in document["paths"].items():
        if not path.startswith("/api/"):
            continue
        for operation in operations.values():
            statuses = COMMON_STATUSES + (BODY_STATUSES if "requestBody" in operation else ())
            for status, response in raises(*statuses).items():
                response.pop("model")
                operation["responses"].setdefault(str(status), response)


def problem_body(problem: Problem) -> dict[str, Any]:
    """Return a problem as the JSON object that clients get."""
    about = {} if problem.about is None else {"about": problem.about}
    return about | {
        "type": f"urn:penstock:{problem.kind}",
        "title": TITLES.get(problem.status, "Error"),
        "status": problem.status,
        "detail": problem.detail,
        "fields": [
            {"field": field, "problem": message} for field, message in problem.fields[:MAX_MISFITS]
        ],
    }


def problem_response(problem: Problem) -> Response:
    """Return the HTTP response for a problem."""
    headers = dict(problem.headers)
    if problem.status in RETRY_AFTER_S:
        headers.setdefault("retry-after", str(RETRY_AFTER_S[problem.status]))
    return Response(
        msgspec.json.encode(problem_body(problem)), problem.status, headers, PROBLEM_MEDIA_TYPE
    )


def from_error(error: errors.PenstockError) -> Problem:
    """Return the Problem that the client gets for an error of Penstock."""
    status = next(status for kind, status in STATUSES if isinstance(error, kind))
    if isinstance(error, errors.NotAllowed):
        # Only those who run the service may learn which roles the database has.
        logger.warning("The database refused a caller: %s", error)
        return Problem(status, "not-allowed", "The database role of this caller may not do that.")
    if isinstance(error, errors.DatabaseError):
        return _database_problem(error, status)
    field = getattr(error, "field", None) or getattr(error, "setting", None)
    fields = [(str(field), str(error))] if field and status == 422 else []
    plain = {
        name: value
        for name, value in vars(error).items()
        if isinstance(value, PLAIN_TYPES) and not name.startswith("_")
    }
    # Only those who run the service may know the host of the database.
    detail = error.anywhere if isinstance(error, errors.SchemaError) else str(error)
    return Problem(status, _slug(type(error).__name__), detail, fields=fields, about=plain)


def from_driver(error: Exception, place: str) -> Problem | None:
    """Return the Problem for a driver's error in a query of an application.

    Returns None if the error did not come from Postgres.
    """
    known_error = database_error(error, place)
    return None if known_error is None else from_error(known_error)


def _database_problem(error: errors.DatabaseError, status: int) -> Problem:
    """Return the Problem for an error of the database, without its details.

    The details are logged, at most once a minute for each kind of error.
    """
    kind, now = type(error), time.monotonic()
    if now - _logged_at.get(kind, float("-inf")) >= LOG_INTERVAL_S:
        _logged_at[kind] = now
        logger.warning("Requests fail with an error of the database: %s", error)
    is_sent = isinstance(error, errors.DatabaseLost) and error.is_sent
    remedy = MAYBE_DONE if is_sent else NOTHING_DONE
    if not is_sent and isinstance(error, TRANSIENT_ERRORS):
        remedy = f"{NOTHING_DONE} {TRY_AGAIN}"
    about: dict[str, Any] = {"sqlstate": error.sqlstate}
    if isinstance(error, errors.DatabaseLost):
        about["is_sent"] = error.is_sent
    detail = f"{DATABASE_DETAILS.get(kind, DATABASE_DETAILS[errors.DatabaseError])} {remedy}"
    return Problem(status, _slug(kind.__name__), detail, about=about)


_logged_at: dict[type[errors.DatabaseError], float] = {}


def install_error_handlers(web: FastAPI) -> None:
    """Make FastAPI respond to every error with a problem document."""

    @web.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> Response:
        return problem_response(error)

    @web.exception_handler(errors.PenstockError)
    async def penstock_error(_: Request, error: errors.PenstockError) -> Response:
        return problem_response(from_error(error))

    @web.exception_handler(RequestValidationError)
    async def misfit(_: Request, error: RequestValidationError) -> Response:
        misfits = error.errors()[:MAX_MISFITS]
        fields = [(_field_path(each["loc"]), misfit_message(each)) for each in misfits]
        if any(each["type"] == "json_invalid" for each in misfits):
            return problem_response(
                Problem(400, "broken-json", "The body is not JSON.", fields=fields)
            )
        detail = "; ".join(f"{field}: {text}" for field, text in fields[:MAX_MISFITS_IN_DETAIL])
        return problem_response(Problem(422, "does-not-fit", detail, fields=fields))

    @web.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        kind = TITLES.get(error.status_code, "Error").lower().replace(" ", "-")
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["allow"] = ", ".join(_allowed_methods(web, request.scope["path"])) or "GET"
        return problem_response(
            Problem(error.status_code, kind, str(error.detail), headers=headers)
        )


def _allowed_methods(web: FastAPI, path: str) -> list[str]:
    """Return the methods of all routes with this path."""
    allowed = set[str]()
    for template, methods in web.openapi()["paths"].items():
        pattern = re.sub(r"\\\{[^}]*\}", "[^/]+", re.escape(template))
        if re.search(f"{pattern}$", path):
            allowed |= {method.upper() for method in methods}
    return sorted(allowed)


def _field_path(location: Any) -> str:
    """Return the path of a field: `args.name` in a body, `query.limit` elsewhere."""
    parts = [str(part) for part in location]
    return ".".join(parts[1:] if parts[:1] == ["body"] and len(parts) > 1 else parts)


def _slug(name: str) -> str:
    """Turn `JobNotFound` into `job-not-found`."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip("-")


def expect_json(body: bytes | bytearray) -> None:
    """Raise a Problem unless a body is strict JSON in UTF-8.

    Duplicate keys, NaN and half a surrogate pair are refused too.
    """
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_without_duplicate_keys,
            parse_constant=_refuse_constant,
        )
        if b"\\u" in body:
            _expect_whole_characters(value)
    except UnicodeDecodeError as error:
        raise _broken_json(f"The body is not UTF-8: byte {error.start} is not valid.") from error
    except RecursionError as error:
        raise _broken_json("The body is nested too deep.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _broken_json(f"The body is not JSON: {error.msg}, {where}.") from error
    except ValueError as error:
        raise _broken_json(f"The body is not strict JSON: {error}.") from error


def _without_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the key {name[:80]!a} occurs twice")
        values[name] = value
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _expect_whole_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("a \\u escape names only half of a surrogate pair") from error


def _broken_json(detail: str) -> Problem:
    return Problem(400, "broken-json", detail)
