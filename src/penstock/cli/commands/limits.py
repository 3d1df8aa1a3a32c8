"""`penstock limits`: how many jobs of a key may run at once and start per second."""

from __future__ import annotations

import asyncio
import math
import shlex
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import OpenQueue, current_user, open_queue
from penstock.cli.errors import SettingNotFound
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, say, terminal
from penstock.cli.settings import (
    Changes,
    given_settings,
    or_none,
    parse_integer,
    parse_number,
    read_queue_names,
    require_set,
    warn_of_unknown_queue,
)
from penstock.cli.tables import format_duration, format_rate
from penstock.errors import BadArgument
from penstock.groups.settings import Limit
from penstock.insights import LimitInsight, Limits
from penstock.rate import as_text

app = group("limits", help="Look at limits, change, close and open them.")

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="queue:NAME, lane:QUEUE:LANE, task:NAME or a key of your own; with * at its end, "
        "each key that begins so.",
    ),
]

MAX_WORKERS_SHOWN = 3


@app.command("list", cls=Command)
@examples("penstock limits list", "penstock limits list --limit 10 --json")
@expand_options
def list_limits(
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 200,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the limits, and each key in use under a pattern, those that hold up jobs first.

    Slots are how many jobs may run at once, held by workers; ready are the jobs that have to keep
    to it; the level is how many may begin now, of as many as may at once after a rest.
    """
    asyncio.run(_show_limits(limit, db, output))


@app.command("set", cls=Command)
@examples(
    "penstock limits set openai --slots 10 --rate 500/min",
    "penstock limits set 'lane:imports:*' --slots 4 --json",
)
@expand_options
def set_limit(
    *,
    key: Key,
    slots: Annotated[
        int | None,
        typer.Option(
            parser=or_none(parse_integer),
            metavar="NUMBER",
            help="How many jobs run at once over all workers; none takes it away.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            help="How many start: 10/s, 500/min, 2000/hour; none takes it away.",
            show_default=False,
        ),
    ] = None,
    burst: Annotated[
        float | None,
        typer.Option(
            parser=or_none(parse_number),
            metavar="NUMBER",
            help="How many start at once after a rest; what comes in a second, if not given.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Limit a key over all workers, at once; what is not given stays as it is."""
    changes = given_settings(slots=slots, rate=rate, burst=burst)
    asyncio.run(_set_limit(key, changes, db, output))


@app.command("remove", cls=Command)
@examples("penstock limits remove openai")
@expand_options
def remove_limit(key: Key, db: DatabaseOptions, output: Output) -> None:
    """Limit a key no more."""
    asyncio.run(_remove_limit(key, db, output))


@app.command("close", cls=Command)
@examples("penstock limits close openai --for 30s")
@expand_options
def close_key(
    *,
    key: Key,
    length: Annotated[
        float,
        typer.Option("--for", parser=parse_duration, metavar="DURATION", help="For how long."),
    ],
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Let no job of a key start for a while, as an answer 429 with a Retry-After does."""
    asyncio.run(_close_key(key, length, db, output))


@app.command("open", cls=Command)
@examples("penstock limits open openai")
@expand_options
def open_key(key: Key, db: DatabaseOptions, output: Output) -> None:
    """Open a key that was closed, before its time."""
    asyncio.run(_open_key(key, db, output))


async def _show_limits(limit: int, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as opened:
        page = await opened.insights.limits(limit=limit)
    output.show(page, lambda: _limits_table(page, terminal().width))
    if page.number.number > len(page.limits) and not output.as_json:
        say(f"These are {len(page.limits)} of {page.number} limits and keys: --limit shows more.")


def _limit_sentence(limit: Limit) -> str:
    subject = f"Each {limit.key} by itself" if limit.key[-1] == "*" else limit.key
    if limit.key == "*":
        subject = "Each key without a limit of its own, such as each queue and each lane, by itself"
    clauses = [] if limit.slots is None else [f"at most {limit.slots:,} at once"]
    if limit.rate is not None:
        clauses += [as_text(limit.rate), f"{_format_number(limit.burst)} in a burst"]
    return f"{subject} is limited: {', '.join(clauses)}."


def _format_number(number: float | None) -> str:
    return f"{number or 0:,.2f}".rstrip("0").rstrip(".")


async def _set_limit(key: str, changes: Changes, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        limit = await queue.app.set_limit(key, **changes, by=current_user())
        await _warn_of_unknown_key(key, queue)
    output.show(limit, lambda: _limit_sentence(limit))


async def _remove_limit(key: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        removed = await queue.app.remove_limit(key, by=current_user())
        hint = "" if removed else await _suggest_keys(key, queue)
    require_set(removed, f"There is no limit {key}.{hint}")
    output.show({"key": key, "removed": True}, lambda: f"{key} is not limited any more.")


async def _close_key(key: str, seconds: float, db: DatabaseOptions, output: Output) -> None:
    if not seconds:
        raise BadArgument("--for", "0s", "more than 0; `penstock limits open` opens a key")
    async with open_queue(db) as queue:
        await _require_rate(key, queue)
        seconds_left = await queue.client.close_bucket(key, seconds)
    document = {"key": key, "closed_for": seconds_left}
    output.show(
        document,
        lambda: (
            f"The key {key} is closed: no job that needs it starts for "
            f"{format_duration(seconds_left)}."
        ),
    )


async def _open_key(key: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        opened = await queue.client.open_bucket(key)
        if not opened and not (await queue.insights.limits([key], limit=1)).limits:
            say(f"There is no limit {key}.{await _suggest_keys(key, queue)}")
    sentence = f"{key} is open again." if opened else f"{key} was not closed."
    output.show({"key": key, "was_closed": opened}, lambda: sentence)


async def _require_rate(key: str, queue: OpenQueue) -> None:
    """Raise unless the key has a limit with a rate, because no other limit can be closed."""
    if key.endswith("*"):
        raise BadArgument("key", key, "one key: close the keys of a pattern one by one")
    limits = (await queue.insights.limits([key], limit=1)).limits
    if not limits:
        raise SettingNotFound(f"There is no limit {key} to close.{await _suggest_keys(key, queue)}")
    if limits[0].rate is None:
        raise SettingNotFound(
            f"The limit {key} has only slots, and only a limit with a rate can be closed. To let "
            f"no job start, use `penstock limits set {shlex.quote(key)} --slots 0`."
        )


async def _suggest_keys(key: str, queue: OpenQueue) -> str:
    """Return a sentence that suggests similar keys, or an empty string if there are none."""
    similar_keys = get_close_matches(key, [limit.key for limit in await queue.app.limits()], n=3)
    return f" Did you mean {' or '.join(similar_keys)}?" if similar_keys else ""


async def _warn_of_unknown_key(key: str, queue: OpenQueue) -> None:
    """Warn if the key names a queue that is not known, or a task that no worker reports."""
    kind, _, name = key.partition(":")
    if key.endswith("*"):
        return
    if kind in ("queue", "lane"):
        queues = await read_queue_names(queue)
        if kind == "queue" or not any(name.startswith(f"{queue_name}:") for queue_name in queues):
            warn_of_unknown_queue(name if kind == "queue" else name.partition(":")[0], queues)
    elif kind == "task":
        tasks = {task for worker in await queue.insights.workers() for task in worker.tasks}
        if tasks and name not in tasks:
            similar_tasks = get_close_matches(name, tasks, n=3)
            hint = f" Did you mean {' or '.join(similar_tasks)}?" if similar_tasks else ""
            say(f"No worker knows a task {name}.{hint}")


def _limits_table(page: Limits, width: int) -> RenderableType:
    """Return limits as a table: slots, rates, who holds slots, and what waits."""
    limits = page.limits
    if not limits:
        return tables.empty_text("There are no limits. Set one: penstock limits set KEY --slots 10")
    has_slots = any(limit.slots is not None or limit.granted for limit in limits)
    has_rate = any(limit.rate is not None for limit in limits)
    now = datetime.now(UTC)
    builder = tables.TableBuilder(width, fills=has_slots)
    builder.column("key", max_width=max(16, width // 4))
    builder.column("", needed=any(_remark(limit, now) for limit in limits))
    builder.column("slots", align_right=True, needed=has_slots)
    builder.column("ready", align_right=True)
    builder.column("rate", align_right=True, needed=has_rate)
    builder.column("level", align_right=True, needed=has_rate)
    builder.column("held by", elastic=True, needed=has_slots)
    for limit in limits:
        builder.row(
            limit.key,
            Text(_remark(limit, now), "yellow"),
            _slots_text(limit),
            _ready_text(limit),
            "" if limit.rate is None else format_rate(limit.rate),
            _level_text(limit),
            Text(_holders_text(limit), tables.FAINT),
        )
    return builder.table


def _remark(limit: LimitInsight, now: datetime) -> str:
    """Say whether a key is closed, lets no job run, is a pattern, or has no limit."""
    if limit.closed_until is not None:
        return f"closed for {format_duration((limit.closed_until - now).total_seconds())}"
    if limit.is_shut:
        return "none runs"
    return "each key" if limit.is_pattern else "" if limit.rule else "no limit"


def _slots_text(limit: LimitInsight) -> Text:
    if limit.slots is None:
        return Text(str(limit.granted or ""))
    if limit.is_pattern:
        return Text(f"{limit.slots:,}")
    colour = "yellow" if limit.is_full else "" if limit.granted else tables.FAINT
    return Text(f"{limit.granted:,}/{limit.slots:,}", colour)


def _ready_text(limit: LimitInsight) -> Text:
    if limit.ready is None or not limit.ready.number:
        return Text("")
    is_held_up = limit.wanting or limit.is_shut or limit.closed_until or limit.refills_in != 0
    return Text(str(limit.ready), "yellow" if is_held_up else "")


def _level_text(limit: LimitInsight) -> Text:
    if limit.burst is None:
        return Text("")
    burst = f"{limit.burst:,.1f}".removesuffix(".0")
    if limit.level is None:
        return Text(burst)
    # A partial token starts no job yet.
    level = 0 if limit.closed_until else math.floor(limit.level + 1e-9)
    return Text(f"{level:,}/{burst}", "yellow" if level < 1 else "")


def _holders_text(limit: LimitInsight) -> str:
    holders = [f"{worker.worker} ({worker.slots})" for worker in limit.workers if worker.slots]
    more = len(holders) - MAX_WORKERS_SHOWN
    shown = ", ".join(holders[:MAX_WORKERS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
