"""A finding: what a check saw, how bad it is, and what to do about it."""

from __future__ import annotations

import shlex
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class Verdict(StrEnum):
    """How bad it is, the worst last."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Verdict).index(self)


class Finding(Struct, frozen=True):
    """One thing that was seen.

    `remedy` says what to do in a sentence; `paste` is what to give to psql or a shell.
    """

    verdict: Verdict
    seen: str
    remedy: str = ""
    paste: tuple[str, ...] = ()

    def led_to(self, schema: str) -> Finding:
        """With commands that work on this schema: without the option they mean `penstock`."""
        if schema == "penstock":
            return self
        option = f" --schema {shlex.quote(schema)}"
        paste = (each + option if each.startswith("penstock ") else each for each in self.paste)
        return replace(self, paste=tuple(paste))


def ok(seen: str, remedy: str = "") -> Finding:
    """All is well. With a remedy: and could be better still."""
    return Finding(Verdict.OK, seen, remedy)


def skipped(seen: str, remedy: str = "", *paste: str) -> Finding:
    """It could not be looked at, for a reason that says nothing about the queue's health."""
    return Finding(Verdict.SKIPPED, seen, remedy, paste)


def warning(seen: str, remedy: str, *paste: str) -> Finding:
    """Jobs are done, but not as they should be, or not for much longer."""
    return Finding(Verdict.WARNING, seen, remedy, paste)


def error(seen: str, remedy: str, *paste: str) -> Finding:
    """Jobs are not done, or soon will not be."""
    return Finding(Verdict.ERROR, seen, remedy, paste)
