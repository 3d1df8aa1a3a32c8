"""The names of time zones."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from penstock.errors import ConfigError


def known_zone(name: Any) -> str:
    """Return the name of a time zone, or raise ConfigError if there is no such zone."""
    if not isinstance(name, str) or not _is_known(name):
        raise ConfigError("timezone", name, "a time zone by its name, such as Europe/Berlin or UTC")
    return name


def _is_known(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        # A machine without time zones cannot check names. The database has its own, and will.
        return name != "" and not available_timezones()
    return True
