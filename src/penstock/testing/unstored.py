"""An attempt at a job that no database has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import asyncpg
import msgspec

from penstock.store import Attempt
from penstock.tasks import Options, Request


def unstored(request: Request[Any], number: int) -> Attempt:
    """What a claim would give for this request, if it were enqueued and claimed now."""
    options, now = request.options, datetime.now(UTC)
    row = {
        "id": 1,
        "token": uuid4(),
        "task": request.task,
        "args": request.args,
        "args_version": request.args_version,
        "attempt": number,
        "failures": number - 1,
        "max_attempts": options.max_attempts,
        "losses": 0,
        "timeout": options.timeout,
        "batch": None,
        "suspect": False,
        "lane": "",
        "priority": options.priority,
        "tenant": options.tenant,
        "ready_at": now,
        "created_at": now,
        "extra": _extra(options, now),
    }
    return Attempt(cast(asyncpg.Record, row), options.queue)


def _extra(options: Options, now: datetime) -> str:
    extra = {
        "run_at": options.run_at or now + timedelta(seconds=options.delay or 0),
        "deadline": options.deadline,
        "subject": options.subject,
        "requested_by": options.requested_by,
        "tags": options.tags,
        "meta": _json(options.meta),
        "retry": _json(options.retry),
    }
    return msgspec.json.encode(extra).decode()


def _json(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
