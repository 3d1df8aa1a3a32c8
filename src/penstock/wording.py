"""Writes numbers, lists and hints in the way in which messages show them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

_SPANS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_SIZES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def span(seconds: float) -> str:
    """Return a length of time in its two largest units: `3 h 12 min`, `1.4 s`, `20 ms`."""
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    for (unit, name), (smaller_unit, smaller_name) in pairwise(_SPANS):
        if seconds >= unit:
            whole, rest = divmod(seconds, unit)
            part = f" {rest // smaller_unit:.0f} {smaller_name}" if rest >= smaller_unit else ""
            return f"{whole:.0f} {name}{part}"
    return f"{seconds:.0f} s"


def size(number: float) -> str:
    """Return a number of bytes as text: `1.2 GB`."""
    for unit, name in _SIZES:
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number:.0f} bytes"


def counted(number: int, noun: str, most: int | None = None) -> str:
    """Return a number with its noun: `1 job`, `3 jobs`.

    If the number was counted only up to `most`, the text is `10,000 or more jobs`.
    """
    more = " or more" if most is not None and number >= most else ""
    return f"{number:,}{more} {noun}{'' if number == 1 and not more else 's'}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """Join names, and count those beyond `most`: `a, b, c and 4 more`."""
    all_names = list(names)
    others = len(all_names) - most
    shown = ", ".join(all_names[:most])
    return f"{shown} and {others} more" if others > 0 else shown


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra. No package index has Penstock yet."""
    return f"pip install '.[{extra}]' in a clone of Penstock's repository"
