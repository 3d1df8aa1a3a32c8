"""Convert rows to jobs, and the ids of jobs to numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import asyncpg
import msgspec

from penstock.errors import JobNotFound
from penstock.job import AttemptError, Job, Progress, split_errors, split_lane

_JSON = ("args", "meta", "retry", "result")
_IDS = ("id", "batch", "workflow")
_decode_errors = msgspec.json.Decoder(tuple[AttemptError, ...]).decode


def job_from(row: asyncpg.Record | Mapping[str, Any]) -> Job:
    """Return a job from a row of `get_jobs` or `list_jobs`."""
    fields: dict[str, Any] = dict(row)
    for name in _JSON:
        if fields[name] is not None:
            fields[name] = msgspec.json.decode(fields[name])
    for name in _IDS:
        fields[name] = None if fields[name] is None else str(fields[name])
    fields["lane"], fields["limits"] = split_lane(fields["lane"])
    fields["meta"] = fields["meta"] or {}
    fields["tags"] = tuple(fields["tags"] or ())
    if fields["progress"] is not None:
        fields["progress"] = _progress(*fields["progress"])
    entries = _decode_errors(fields["errors"]) if fields["errors"] else ()
    fields["errors"], fields["earlier_ends"] = split_errors(entries)
    return Job(**fields)


def _progress(done: str, total: str | None, message: str | None) -> Progress | None:
    """Build a `Progress` from the columns done, total and message.

    Return None if `done` is not finite, and leave out `total` if it is not, since JSON cannot
    express such numbers.
    """
    if not isfinite(float(done)):
        return None
    finite_total = None if total is None or not isfinite(float(total)) else float(total)
    return Progress(done=float(done), total=finite_total, message=message)


def key_of(job_id: str) -> int:
    """Return the number of an id. Raises JobNotFound for a text that cannot be an id."""
    if not job_id.isascii() or not job_id.isdigit():
        raise JobNotFound(job_id)
    key = int(job_id)
    if key >= 2**63:
        raise JobNotFound(job_id)
    return key
