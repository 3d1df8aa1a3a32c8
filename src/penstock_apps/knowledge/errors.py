"""What goes wrong with knowledge, said so that its owner understands it."""

from __future__ import annotations

from typing import Literal

from penstock import NotRetryable, PenstockError

Unfit = Literal[
    "encrypted",
    "broken",
    "empty",
    "no_text",
    "too_large",
    "too_many_pages",
    "inflates",
    "unsupported",
]


class KnowledgeError(PenstockError):
    """The root of what this application raises."""


class Unreadable(KnowledgeError, NotRetryable):
    """A file that gives no text, however often it is read."""

    def __init__(self, reason: Unfit, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class Skipped(Unreadable):
    """A file of a kind that nobody can read here: no failure of it."""
