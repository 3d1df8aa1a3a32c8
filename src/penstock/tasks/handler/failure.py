"""An exception as text, whether to try again after it, and when."""

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


def unawaited(who: str, value: Awaitable[object], remedy: str) -> str:
    """Say that `who` returned what should have been awaited; it never will be."""
    if isinstance(value, Coroutine):
        value.close()  # Or Python warns of it, wherever the garbage collector finds it.
    return (
        f"{who} returned a {type(value).__name__} that nobody has awaited, so its work is not "
        f"done: {remedy}."
    )


logger = logging.getLogger(__name__)

REFUSED: Final = (429, 503)
# "0" would only be refused again, and nobody is believed who wants to be left alone for a week.
SHORTEST: Final = 1.0
LONGEST: Final = 86_400.0


def retry_after(error: BaseException | None) -> float | None:
    """The seconds that an error asks to wait, ours or another library's; None if it does not."""
    return _longest(error, _asked)


def http_retry_after(error: BaseException | None) -> float | None:
    """The seconds that a server asked to wait: a 429 or 503 whose Retry-After says how long.

    Looked for in `error.response`, as httpx, requests and the SDKs of model APIs have it, and in
    the error itself, as aiohttp and urllib do.
    """
    return _longest(error, _asked_by_server)


def _longest(
    error: BaseException | None, asked: Callable[[BaseException], float | None]
) -> float | None:
    """Of a group the longest, if each of its errors asks for a wait."""
    if not isinstance(error, BaseExceptionGroup):
        return None if error is None else asked(error)
    waits = [_longest(one, asked) for one in error.exceptions]
    known = [wait for wait in waits if wait is not None]
    return max(known) if len(known) == len(waits) else None


def _asked(error: BaseException) -> float | None:
    if isinstance(error, Retryable):
        after = error.after
        return None if after is None or isnan(after) else min(max(after, 0.0), LONGEST)
    return _asked_by_server(error)


def _asked_by_server(error: BaseException) -> float | None:
    try:
        for answer in (getattr(error, "response", None), error):
            headers = getattr(answer, "headers", None)
            if headers is not None and _status(answer) in REFUSED:
                return asked_wait(headers)
    except Exception:
        logger.debug("An error's answer could not be read.", exc_info=True)
    return None


def _status(answer: Any) -> int | None:
    for name in ("status_code", "status", "code"):
        if isinstance(status := getattr(answer, name, None), int):
            return status
    return None


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that an answer asks to wait, by its Retry-After; None if it does not say.

    raise Retryable("the model API is busy", after=asked_wait(response.headers))
    """
    headers = {name.lower(): value for name, value in headers.items()}
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return _bounded(milliseconds / 1000)
    said = headers.get("retry-after")
    if (seconds := _number(said)) is not None:
        return _bounded(seconds)
    until = _moment(said)
    if until is None:
        return None
    # By the server's clock, if it tells its time: ours may be wrong.
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
    return min(max(seconds, SHORTEST), LONGEST)


FRAMES: Final = 100
TYPE_LIMIT: Final = 200
FRAME: Final = re.compile(r'^[ |]*File "([^"\n]+)", line (\d+), in (\S+)', re.MULTILINE)
# Code that is not the user's: of Python, of installed packages, of Penstock.
FOREIGN: Final = tuple(
    f"{folder}{os.sep}"
    for folder in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).parents[2]),
    }
)
# The next attempt would only come to the same.
IN_VAIN: Final = (
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
    """Return an exception as text that can be stored. Never raises, whatever the exception does."""
    return AttemptError(
        kind=kind,
        type=storable(_type_name(type(error)), TYPE_LIMIT),
        message=storable(_message(error), MESSAGE_LIMIT),
        traceback=storable(_traceback(error), TRACEBACK_LIMIT, keep_end=True),
        attempt=attempt,
        worker=worker,
    )


def raised_at(told: str) -> str:
    """Where a traceback leads, such as "shop/jobs.py:12 in send_mail"; empty without a frame.

    This is the innermost frame of the user's own code. Where all code is installed, it is the
    innermost frame of all.
    """
    frames = FRAME.findall(told)
    own = [frame for frame in frames if not frame[0].startswith(FOREIGN)]
    if not frames:
        return ""
    [file, line, function] = (own or frames)[-1]
    return f"{_from_here(file)}:{line} in {function}"


def is_retryable(
    error: BaseException,
    retry_on: Collection[type[BaseException]] = (),
    discard_on: Collection[type[BaseException]] = (),
) -> bool:
    """Whether another attempt may help. The class nearest to the error's own decides.

    With `retry_on`, only the errors it names are tried again; those of `discard_on` never are.
    """
    for cls in type(error).__mro__:
        if cls in IN_VAIN or cls in discard_on:
            return False
        if cls is Retryable or cls in retry_on:
            return True
    return not retry_on


def _from_here(file: str) -> str:
    """The path as seen from the current folder, if it is within it."""
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
        told = "".join(traceback.format_exception(error, limit=-FRAMES))
        message = _message(error)
        if len(message) > MESSAGE_LIMIT:
            # It is kept apart; here it would leave no room for where the error came from.
            told = told.replace(message, storable(message, MESSAGE_LIMIT, keep_end=True))
        return told
    except Exception as failure:
        return f"<the traceback could not be made: {type(failure).__name__}>"
