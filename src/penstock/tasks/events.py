"""The name of an event, and how long to wait for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from penstock.tasks.options import CHECKS, seconds


def event_name(value: Any) -> str:
    """Return a name that an event can have."""
    return str(CHECKS["requested_by"]("event", value or ""))


def event_wait(name: Any, timeout: float | timedelta | None) -> tuple[str, float | None]:
    """Return the name of an event and the seconds to wait for it, both checked."""
    return event_name(name), None if timeout is None else seconds("timeout", timeout)
