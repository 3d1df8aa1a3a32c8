"""Decides whether and when to retry a job after an exception, and describes exceptions as text."""

from __future__ import annotations

import logging
import os
import re
import sysconfig
import traceback
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite, isnan
from pathlib import Path
from typing import Any, Final

from penstock.errors import (
    BudgetTooSmall,
    DuplicateStep,
    EventTimeout,
    NotRetryable,
    PollTimeout,
    Retryable,
    StepDoesNotFit,
    TooManySteps,
)
from penstock.job import MESSAGE_LIMIT, TRACEBACK_LIMIT, AttemptError, ErrorKind, storable


def describe_unawaited(function: str, value: Awaitable[object], remedy: str) -> str:
    """Return the message for a function that returned a coroutine or future without awaiting it."""
    if isinstance(value, Coroutine):
        value.close()  # Otherwise Python warns whenever the garbage collector finds it.
    return (
        f"{function} returned a {type(value).__name__} that nobody has awaited, so its work is not "
        f"done: {remedy}."
    )


logger = logging.getLogger(__name__)

RETRY_AFTER_STATUSES: Final = (429, 503)
# A wait of 0 would only be refused again. A server that asks for a week is not believed.
MIN_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 86_400.0


def retry_after(error: BaseException | None) -> float | None:
    """Return how many seconds an exception asks to wait before a retry, or None if it does not.

    `Retryable(after=…)` asks for a wait, and so does a 429 or 503 with a Retry-After.
    """
    return _longest_wait(error, _wait_of)


def http_retry_after(error: BaseException | None) -> float | None:
    """Return how many seconds the Retry-After of a server's 429 or 503 asks to wait, or None.

    The server's response is `error.response`, as in httpx, requests and the SDKs of model APIs, or
    the error itself, as in aiohttp and urllib.
    """
    return _longest_wait(error, _wait_of_server)


def _longest_wait(
    error: BaseException | None, wait_of: Callable[[BaseException], float | None]
) -> float | None:
    """Return how many seconds an error asks to wait, or None.

    An exception group asks for its longest wait, but only if each of its exceptions asks for one.
    """
    if not isinstance(error, BaseExceptionGroup):
        return None if error is None else wait_of(error)
    waits = [_longest_wait(inner, wait_of) for inner in error.exceptions]
    known = [wait for wait in waits if wait is not None]
    return max(known) if len(known) == len(waits) else None


def _wait_of(error: BaseException) -> float | None:
    if isinstance(error, Retryable):
        after = error.after
        return None if after is None or isnan(after) else min(max(after, 0.0), MAX_WAIT_S)
    return _wait_of_server(error)


def _wait_of_server(error: BaseException) -> float | None:
    try:
        for response in (getattr(error, "response", None), error):
            headers = getattr(response, "headers", None)
            if headers is not None and _status(response) in RETRY_AFTER_STATUSES:
                return asked_wait(headers)
    except Exception:
        logger.debug("The response of an error could not be read.", exc_info=True)
    return None


def _status(response: Any) -> int | None:
    for name in ("status_code", "status", "code"):
        if isinstance(status := getattr(response, name, None), int):
            return status
    return None


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a Retry-After header asks to wait, or None without such a header.

    raise Retryable("the model API is busy", after=asked_wait(response.headers))
    """
    headers = {name.lower(): value for name, value in headers.items()}
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return _bounded(milliseconds / 1000)
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return _bounded(seconds)
    until = _moment(value)
    if until is None:
        return None
    # The server's clock counts, if it sends its time: ours may be wrong.
    now = _moment(headers.get("date")) or datetime.now(UTC)
    return _bounded((until - now).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) else None


def _moment(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, IndexError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _bounded(seconds: float) -> float:
    return min(max(seconds, MIN_WAIT_S), MAX_WAIT_S)


MAX_FRAMES: Final = 100
TYPE_LIMIT: Final = 200
FRAME: Final = re.compile(r'^[ |]*File "([^"\n]+)", line (\d+), in (\S+)', re.MULTILINE)
# Folders of code that is not the user's: of Python, of installed packages, of Penstock.
LIBRARY_FOLDERS: Final = tuple(
    f"{folder}{os.sep}"
    for folder in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).parents[2]),
    }
)
# Another attempt would end with the same error.
NEVER_RETRYABLE: Final = (
    NotRetryable,
    BudgetTooSmall,
    DuplicateStep,
    StepDoesNotFit,
    TooManySteps,
    EventTimeout,
    PollTimeout,
)


def describe_error(
    error: BaseException, *, kind: ErrorKind = "failure", attempt: int = 0, worker: str = ""
) -> AttemptError:
    """Return an exception as text that can be stored. Never raises, even if its `str()` does."""
    return AttemptError(
        kind=kind,
        type=storable(_type_name(type(error)), TYPE_LIMIT),
        message=storable(_message(error), MESSAGE_LIMIT),
        traceback=storable(_traceback(error), TRACEBACK_LIMIT, keep_end=True),
        attempt=attempt,
        worker=worker,
    )


def raised_at(traceback_text: str) -> str:
    """Return the place in the code where an exception was raised: "shop/jobs.py:12 in send_mail".

    This is the traceback's innermost frame in the user's own code, or its innermost frame if none
    is in the user's code. Returns "" for a text without frames.
    """
    frames = FRAME.findall(traceback_text)
    own = [frame for frame in frames if not frame[0].startswith(LIBRARY_FOLDERS)]
    if not frames:
        return ""
    [file, line, function] = (own or frames)[-1]
    return f"{_relative(file)}:{line} in {function}"


def is_retryable(
    error: BaseException,
    retry_on: Collection[type[BaseException]] = (),
    discard_on: Collection[type[BaseException]] = (),
) -> bool:
    """Return whether a job may be retried after this error.

    Errors of the classes in `discard_on` are not retried. If `retry_on` has classes, only their
    errors are retried. For an error that belongs to classes in both, the class that is closest to
    the error's own class decides.
    """
    for cls in type(error).__mro__:
        if cls in NEVER_RETRYABLE or cls in discard_on:
            return False
        if cls is Retryable or cls in retry_on:
            return True
    return not retry_on


def _relative(file: str) -> str:
    """Return a path relative to the current folder, if it is inside of it."""
    try:
        return file.removeprefix(f"{Path.cwd()}{os.sep}")
    except OSError:  # The current folder was deleted.
        return file


def _type_name(cls: type) -> str:
    module = cls.__module__
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"<its text could not be made: str() raised {type(failure).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error, limit=-MAX_FRAMES))
        message = _message(error)
        if len(message) > MESSAGE_LIMIT:
            # The message is stored by itself. Here it would leave no room for the frames.
            text = text.replace(message, storable(message, MESSAGE_LIMIT, keep_end=True))
        return text
    except Exception as failure:
        return f"<the traceback could not be made: {type(failure).__name__}>"
