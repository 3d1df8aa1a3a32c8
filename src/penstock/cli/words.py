"""Numbers as they stand in tables; `penstock.wording` has them for sentences."""

from __future__ import annotations

from datetime import datetime


def length(seconds: float) -> str:
    """A length of time in two steps at most: `850 ms`, `2.4 s`, `3m 05s`, `2d 4h`."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = max(int(seconds), 60)
    for unit, size, lower, step in (("d", 86_400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // step:02}{lower}"
    return f"{whole // 60}m {whole % 60:02}s"


def ago(seconds: float) -> str:
    """How long ago, in one step: `3 s ago`, `12m ago`, `2d ago`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def rate(per_second: float) -> str:
    """Jobs a second; a minute or an hour where that would be less than one."""
    if per_second >= 99.95:
        return f"{per_second:,.0f}/s"
    for unit, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f}/{unit}"
    return f"{per_second * 3600:.1f}/h" if per_second else "0/s"


def share(part: float | None) -> str:
    """A part of one in percent."""
    if part is None:
        return "–"
    return f"{part:.1%}" if part else "0 %"


def at(moment: datetime) -> str:
    """A moment to the second, in UTC."""
    return f"{moment:%Y-%m-%d %H:%M:%S}"
