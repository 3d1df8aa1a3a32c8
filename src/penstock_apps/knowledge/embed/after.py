"""When a server that is too busy wants to be asked again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

# "0" would only be refused again, and nobody is believed who wants to be left alone for a week.
SHORTEST: Final = 1.0
LONGEST: Final = 86_400.0


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that an answer asks to wait; None if it does not say."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None:
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
