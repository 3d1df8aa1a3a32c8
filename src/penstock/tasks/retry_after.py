"""What an error says about when to come back, without the library that raised it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite, isnan
from typing import Any, Final

from penstock.errors import Retryable

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
