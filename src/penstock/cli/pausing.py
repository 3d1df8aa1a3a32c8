"""What `penstock queues` does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from penstock.cli.opening import Reached, reached
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.queues import queues_table
from penstock.cli.where import Where
from penstock.insights import QueueInsight
from penstock.insights.insights import QUEUES_COUNTED
from penstock.tasks.options import QUEUE_NAME, matching

NAMES_SHOWN = 10


async def show_queues(limit: int, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        page = await queue.insights.queue_page(limit=limit)
    output.show(page, lambda: queues_table(page.queues, terminal().width))
    if page.left_out.number and not output.as_json:
        say(
            f"{len(page.queues):,} queues are shown. {page.left_out} more have ready jobs: "
            "--limit shows more of them."
        )


async def pause_queues(names: Sequence[str], where: Where, output: Output) -> None:
    """Pause; a name that nobody uses is paused too, but said to be suspicious."""
    _check(names)
    async with reached(where) as queue:
        known = await known_queues(queue)
        for name in names:
            await queue.client.pause(name)
            warn_of_unknown(name, known)
        found = {each.name: each for each in await queue.insights.queues()}
    document = [{"name": name, "paused": True, "known": name in known} for name in names]
    output.show({"queues": document}, lambda: "\n".join(_paused(found[name]) for name in names))


async def resume_queues(names: Sequence[str], where: Where, output: Output) -> None:
    """Resume; one that was not paused is said to be so."""
    _check(names)
    async with reached(where) as queue:
        known, paused = await known_queues(queue), await queue.app.paused()
        for name in names:
            await queue.client.resume(name)
            if name not in paused:
                say(f"The queue {name} was not paused.")
                warn_of_unknown(name, known)
    document = [{"name": name, "paused": False, "known": name in known} for name in names]
    told = [f"Workers may take jobs from the queue {name}." for name in names]
    output.show({"queues": document}, lambda: "\n".join(told))


def _check(names: Sequence[str]) -> None:
    for name in names:
        matching("queue", name, QUEUE_NAME)


async def known_queues(queue: Reached) -> set[str]:
    found = await queue.insights.queues(count_to=1, limit=QUEUES_COUNTED)
    return {each.name for each in found}


def warn_of_unknown(name: str, known: Collection[str]) -> None:
    if name in known:
        return
    hint = "There are no others either."
    if near := get_close_matches(name, known, n=3):
        hint = f"Did you mean {' or '.join(near)}?"
    elif known:
        more = ", …" if len(known) > NAMES_SHOWN else ""
        hint = f"There are {', '.join(sorted(known)[:NAMES_SHOWN])}{more}."
    say(f"No waiting job and no worker has a queue {name}. {hint}")


def _paused(queue: QueueInsight) -> str:
    ready = "job waits" if queue.ready.number == 1 else "jobs wait"
    running = "runs" if queue.running.number == 1 else "run"
    return (
        f"The queue {queue.name} is paused: {queue.ready} ready {ready}, "
        f"{queue.running} {running} on."
    )
