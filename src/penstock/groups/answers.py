"""Response bodies of the HTTP API that no call of the client returns.

The service encodes them, and the HTTP client decodes them.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.connect.enqueue import Enqueued, JobStatus


class States(Struct, frozen=True):
    """State and progress by id, of those that were found."""

    states: dict[str, JobStatus]


class ManyEnqueued(Struct, frozen=True):
    """Jobs that are stored, in the order in which they came."""

    jobs: list[Enqueued[Any]]


class Changed(Struct, frozen=True):
    """What became of a job: the state that it has now, or `deleted`."""

    id: str
    state: str


class Acted(Struct, frozen=True, kw_only=True):
    """What an action came to: so many changed, and those that were left, by id with why.

    `matched` is how many there are, as far as they were counted: `is_exact` says whether that is
    all. `after` is where the next call goes on, None if all are done; `until` freezes the filter.
    """

    dry_run: bool
    matched: int
    is_exact: bool
    changed: int = 0
    left: dict[str, str] = {}
    until: str | None = None
    after: str | None = None


class Why(Struct, frozen=True):
    """Why something has not ended, in sentences; empty if it has."""

    why: str


class Number(Struct, frozen=True):
    """How many jobs were changed."""

    changed: int


class Removed(Struct, frozen=True):
    """Whether there was something to remove."""

    removed: bool
