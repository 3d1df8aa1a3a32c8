"""What the commands do that change settings of queues, lanes, limits, plans and tenants."""

from __future__ import annotations

import shlex
from difflib import get_close_matches
from typing import Any

from penstock.cli.errors import SettingNotFound
from penstock.cli.given import user
from penstock.cli.opening import Reached, reached
from penstock.cli.output import Output, say, terminal
from penstock.cli.pausing import known_queues, warn_of_unknown
from penstock.cli.screens import settings as told
from penstock.cli.where import Where
from penstock.cli.words import length
from penstock.errors import BadArgument
from penstock.job import State

Changes = dict[str, Any]


async def change_queue(name: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        known = await known_queues(queue)
        found = await queue.app.set_queue(name, **changes, by=user())
    warn_of_unknown(name, known)
    if "lane_key" in changes and not found.fair:
        say(f"The queue {name} is not fair, and has one lane: --fair makes it so.")
    output.show(found, lambda: told.queue(found))


async def change_lane(name: str, lane: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_lane(name, lane, **changes, by=user())
        fair = [each.name for each in await queue.app.queue_settings() if each.fair]
    if name not in fair:
        say(
            f"The queue {name} is not fair: only jobs enqueued with a lane of their own have one. "
            f"`penstock queues set {name} --fair` makes it so."
        )
    output.show(found, lambda: told.lane(found))


async def remove_lane(name: str, lane: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_lane(name, lane, by=user())
    _expect(removed, f"Nothing is set for the lane {lane} of the queue {name}.")
    document = {"queue": name, "lane": lane, "removed": True}
    output.show(document, lambda: f"Nothing is set for the lane {lane} of {name} any more.")


async def change_limit(key: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_limit(key, **changes, by=user())
        await _warn_of_unmatched(key, queue)
    output.show(found, lambda: told.limit(found))


async def remove_limit(key: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_limit(key, by=user())
        near = "" if removed else await _near(key, queue)
    _expect(removed, f"There is no limit {key}.{near}")
    output.show({"key": key, "removed": True}, lambda: f"{key} is not limited any more.")


async def close_key(key: str, seconds: float, where: Where, output: Output) -> None:
    if not seconds:
        raise BadArgument("--for", "0s", "more than 0; `penstock limits open` opens a key")
    async with reached(where) as queue:
        await _expect_rate(key, queue)
        left = await queue.client.close_bucket(key, seconds)
    document = {"key": key, "closed_for": left}
    output.show(document, lambda: f"No job of {key} starts for {length(left)}.")


async def open_key(key: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        opened = await queue.client.open_bucket(key)
        if not opened and not (await queue.insights.limits([key], limit=1)).limits:
            say(f"There is no limit {key}.{await _near(key, queue)}")
    sentence = f"{key} is open again." if opened else f"{key} was not closed."
    output.show({"key": key, "was_closed": opened}, lambda: sentence)


async def show_plans(where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.plans()
    output.show({"plans": found}, lambda: told.plans_table(found, terminal().width))


async def change_plan(name: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_plan(name, **changes, by=user())
    output.show(found, lambda: told.plan(found))


async def remove_plan(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_plan(name, by=user())
    _expect(removed, f"There is no plan {name}.")
    output.show({"name": name, "removed": True}, lambda: f"The plan {name} was removed.")


async def show_tenants(
    plan: str | None, after: str | None, limit: int, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        found = await queue.app.tenants(plan=plan, after=after, limit=limit)
    next_one = found[-1].name if len(found) == limit else None
    document = {"tenants": found, "after": next_one}
    output.show(document, lambda: told.tenants_table(found, terminal().width))
    if next_one is not None and not output.as_json:
        say(f"There may be more: --after {next_one}")


async def change_tenant(name: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_tenant(name, **changes, by=user())
    output.show(found, lambda: told.tenant(found))


async def remove_tenant(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_tenant(name, by=user())
    _expect(removed, f"Nothing is set for the tenant {name}.")
    document = {"name": name, "removed": True}
    output.show(document, lambda: f"Nothing is set for the tenant {name} any more.")


async def show_retentions(where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.retentions()
    output.show({"retentions": found}, lambda: told.retentions_table(found, terminal().width))


async def change_retention(
    state: State, days: int, name: str, tenant: str, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        known = await known_queues(queue)
        found = await queue.app.set_retention(state, days, queue=name, tenant=tenant, by=user())
    if name:
        warn_of_unknown(name, known)
    output.show(found, lambda: told.retention(found))


async def remove_retention(
    state: State, name: str, tenant: str, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_retention(state, queue=name, tenant=tenant, by=user())
    whose = told.whose(state, name, tenant)
    _expect(removed, f"No rule is set for {whose}.")
    document = {"state": state, "queue": name, "tenant": tenant, "removed": True}
    output.show(document, lambda: f"No rule is set for {whose} any more.")


def _expect(was_there: bool, otherwise: str) -> None:
    if not was_there:
        raise SettingNotFound(otherwise)


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
