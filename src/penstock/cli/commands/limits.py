"""`penstock limits`: how much may run, and begin, of a key."""

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
from penstock.cli.database import Reached, reached, user
from penstock.cli.errors import SettingNotFound
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.settings import (
    Changes,
    expect_set,
    known_queues,
    number,
    or_none,
    settings,
    warn_of_unknown,
    whole,
)
from penstock.cli.tables import length, rate
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


@app.command("list", cls=Command)
@examples("penstock limits list", "penstock limits list --limit 10 --json")
@spread
def list_limits(
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 200,
    where: Where,
    output: Output,
) -> None:
    """List the limits, and each key in use under a pattern, those that hold up jobs first.

    Slots are how many jobs may run at once, held by workers; ready are the jobs that have to keep
    to it; the level is how many may begin now, of as many as may at once after a rest.
    """
    asyncio.run(_show(limit, where, output))


@app.command("set", cls=Command)
@examples(
    "penstock limits set openai --slots 10 --rate 500/min",
    "penstock limits set 'lane:imports:*' --slots 4 --json",
)
@spread
def set_limit(
    *,
    key: Key,
    slots: Annotated[
        int | None,
        typer.Option(
            parser=or_none(whole),
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
            parser=or_none(number),
            metavar="NUMBER",
            help="How many start at once after a rest; what comes in a second, if not given.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Limit a key over all workers, at once; what is not given stays as it is."""
    changes = settings(slots=slots, rate=rate, burst=burst)
    asyncio.run(_set_limit(key, changes, where, output))


@app.command("remove", cls=Command)
@examples("penstock limits remove openai")
@spread
def remove_limit(key: Key, where: Where, output: Output) -> None:
    """Limit a key no more."""
    asyncio.run(_remove_limit(key, where, output))


@app.command("close", cls=Command)
@examples("penstock limits close openai --for 30s")
@spread
def close_key(
    *,
    key: Key,
    length: Annotated[
        float, typer.Option("--for", parser=seconds, metavar="DURATION", help="For how long.")
    ],
    where: Where,
    output: Output,
) -> None:
    """Let no job of a key start for a while, as an answer 429 with a Retry-After does."""
    asyncio.run(_close_key(key, length, where, output))


@app.command("open", cls=Command)
@examples("penstock limits open openai")
@spread
def open_key(key: Key, where: Where, output: Output) -> None:
    """Open a key that was closed, before its time."""
    asyncio.run(_open_key(key, where, output))


async def _show(limit: int, where: Where, output: Output) -> None:

    async with reached(where) as opened:
        found = await opened.insights.limits(limit=limit)
    output.show(found, lambda: _limits_table(found, terminal().width))
    if found.number.number > len(found.limits) and not output.as_json:
        say(f"These are {len(found.limits)} of {found.number} limits and keys: --limit shows more.")


def _limit_sentence(found: Limit) -> str:
    who = f"Each {found.key} by itself" if found.key[-1] == "*" else found.key
    if found.key == "*":
        who = "Each key without a limit of its own, such as each queue and each lane, by itself"
    told = [] if found.slots is None else [f"at most {found.slots:,} at once"]
    if found.rate is not None:
        told += [as_text(found.rate), f"{_amount(found.burst)} in a burst"]
    return f"{who} is limited: {', '.join(told)}."


def _amount(number: float | None) -> str:
    return f"{number or 0:,.2f}".rstrip("0").rstrip(".")


async def _set_limit(key: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_limit(key, **changes, by=user())
        await _warn_of_unmatched(key, queue)
    output.show(found, lambda: _limit_sentence(found))


async def _remove_limit(key: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_limit(key, by=user())
        near = "" if removed else await _near(key, queue)
    expect_set(removed, f"There is no limit {key}.{near}")
    output.show({"key": key, "removed": True}, lambda: f"{key} is not limited any more.")


async def _close_key(key: str, seconds: float, where: Where, output: Output) -> None:
    if not seconds:
        raise BadArgument("--for", "0s", "more than 0; `penstock limits open` opens a key")
    async with reached(where) as queue:
        await _expect_rate(key, queue)
        left = await queue.client.close_bucket(key, seconds)
    document = {"key": key, "closed_for": left}
    output.show(document, lambda: f"No job of {key} starts for {length(left)}.")


async def _open_key(key: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        opened = await queue.client.open_bucket(key)
        if not opened and not (await queue.insights.limits([key], limit=1)).limits:
            say(f"There is no limit {key}.{await _near(key, queue)}")
    sentence = f"{key} is open again." if opened else f"{key} was not closed."
    output.show({"key": key, "was_closed": opened}, lambda: sentence)


async def _expect_rate(key: str, queue: Reached) -> None:
    """Only starts that are counted can be stopped: closing anything else would change nothing."""
    if key.endswith("*"):
        raise BadArgument("key", key, "one key: those of a pattern are closed each by itself")
    found = (await queue.insights.limits([key], limit=1)).limits
    if not found:
        raise SettingNotFound(f"There is no limit {key} to close.{await _near(key, queue)}")
    if found[0].rate is None:
        raise SettingNotFound(
            f"The limit {key} has slots and no rate, so there is nothing to close. "
            f"`penstock limits set {shlex.quote(key)} --slots 0` lets nothing start."
        )


async def _near(key: str, queue: Reached) -> str:
    """Which keys may have been meant, as a sentence more."""
    near = get_close_matches(key, [each.key for each in await queue.app.limits()], n=3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


async def _warn_of_unmatched(key: str, queue: Reached) -> None:
    """Remark on a key of a queue or a task that nobody has been seen to have."""
    kind, _, name = key.partition(":")
    if key.endswith("*"):
        return
    if kind in ("queue", "lane"):
        known = await known_queues(queue)
        if kind == "queue" or not any(name.startswith(f"{each}:") for each in known):
            warn_of_unknown(name if kind == "queue" else name.partition(":")[0], known)
    elif kind == "task":
        tasks = {task for worker in await queue.insights.workers() for task in worker.tasks}
        if tasks and name not in tasks:
            near = get_close_matches(name, tasks, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            say(f"No worker knows a task {name}.{hint}")


WORKERS_SHOWN = 3


def _limits_table(found: Limits, width: int) -> RenderableType:
    """Limits as a table: what may run and begin, who has it, and what waits."""
    limits = found.limits
    if not limits:
        return tables.nothing("There are no limits. Set one: penstock limits set KEY --slots 10")
    has_slots = any(limit.slots is not None or limit.granted for limit in limits)
    has_rate = any(limit.rate is not None for limit in limits)
    now = datetime.now(UTC)
    sheet = tables.Sheet(width, fills=has_slots)
    sheet.column("key", most=max(16, width // 4))
    sheet.column("", needed=any(_remark(limit, now) for limit in limits))
    sheet.column("slots", right=True, needed=has_slots)
    sheet.column("ready", right=True)
    sheet.column("rate", right=True, needed=has_rate)
    sheet.column("level", right=True, needed=has_rate)
    sheet.column("held by", elastic=True, needed=has_slots)
    for limit in limits:
        sheet.row(
            limit.key,
            Text(_remark(limit, now), "yellow"),
            _slots(limit),
            _ready(limit),
            "" if limit.rate is None else rate(limit.rate),
            _level(limit),
            Text(_workers(limit), tables.FAINT),
        )
    return sheet.table


def _remark(limit: LimitInsight, now: datetime) -> str:
    """What is special about a key."""
    if limit.closed_until is not None:
        return f"closed for {length((limit.closed_until - now).total_seconds())}"
    if limit.is_shut:
        return "none runs"
    return "each key" if limit.is_pattern else "" if limit.rule else "no limit"


def _slots(limit: LimitInsight) -> Text:
    if limit.slots is None:
        return Text(str(limit.granted or ""))
    if limit.is_pattern:
        return Text(f"{limit.slots:,}")
    colour = "yellow" if limit.is_full else "" if limit.granted else tables.FAINT
    return Text(f"{limit.granted:,}/{limit.slots:,}", colour)


def _ready(limit: LimitInsight) -> Text:
    if limit.ready is None or not limit.ready.number:
        return Text("")
    holds = limit.wanting or limit.is_shut or limit.closed_until or limit.refills_in != 0
    return Text(str(limit.ready), "yellow" if holds else "")


def _level(limit: LimitInsight) -> Text:
    if limit.burst is None:
        return Text("")
    burst = f"{limit.burst:,.1f}".removesuffix(".0")
    if limit.level is None:
        return Text(burst)
    # What is there in part cannot begin yet.
    level = 0 if limit.closed_until else math.floor(limit.level + 1e-9)
    return Text(f"{level:,}/{burst}", "yellow" if level < 1 else "")


def _workers(limit: LimitInsight) -> str:
    holders = [f"{each.worker} ({each.slots})" for each in limit.workers if each.slots]
    more = len(holders) - WORKERS_SHOWN
    shown = ", ".join(holders[:WORKERS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
