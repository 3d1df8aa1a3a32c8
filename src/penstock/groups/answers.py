"""Response bodies of the HTTP API that no call of the client returns.

The service encodes them, and the HTTP client decodes them.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.connect.enqueue import Enqueued, JobStatus


class States(Struct, frozen=True):
    """The state and the progress of each job that was found, by its id."""

    states: dict[str, JobStatus]


class ManyEnqueued(Struct, frozen=True):
    """The jobs that were stored, in the order of the request."""

    jobs: list[Enqueued[Any]]


class Changed(Struct, frozen=True):
    """A job after the call: its new state, or `deleted`."""

    id: str
    state: str


class Acted(Struct, frozen=True, kw_only=True):
    """The result of an action on jobs, or of its dry run.

    `changed` is how many jobs were changed, and `left` has the others by id, with the reason, such
    as their state. `matched` is how many jobs were found by this call; there may be more if
    `is_exact` is False. To go on, pass `after` and `until` with the next call: `after` is None once
    all jobs are done, and `until` excludes jobs that were enqueued later.
    """

    dry_run: bool
    matched: int
    is_exact: bool
    changed: int = 0
    left: dict[str, str] = {}
    until: str | None = None
    after: str | None = None


class Why(Struct, frozen=True):
    """The reasons why something has not ended, in sentences. The text is empty if it has ended."""

    why: str


class Number(Struct, frozen=True):
    """How many jobs were changed."""

    changed: int


class Removed(Struct, frozen=True):
    """The result of a removal. `removed` is False if there was nothing to remove."""

    removed: bool
