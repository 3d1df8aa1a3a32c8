"""Moments as people write them: `2h` ago, or `2026-07-18T09:30:00Z`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import typer

from penstock.cli.duration import seconds

AS_WRITTEN = "write it like 2026-07-18T09:30:00Z; without a zone it is UTC"


def moment(text: str | datetime) -> datetime:
    """A point in time in ISO 8601."""
    if isinstance(text, datetime):
        return text
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no point in time; {AS_WRITTEN}") from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def past(text: str | datetime) -> datetime:
    """A point in time, or how long ago it was."""
    if isinstance(text, datetime):
        return text
    for read in (_ago, moment):
        try:
            return read(text)
        except typer.BadParameter:
            continue
    raise typer.BadParameter(
        f"{text!r} is no point in time; write how long ago, like 2h or 7d, or {AS_WRITTEN}"
    )


def _ago(text: str) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds(text))
