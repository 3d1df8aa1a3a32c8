"""Read and change schedules while workers run."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from itertools import islice
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from penstock.connect.enqueue import Enqueued
from penstock.connect.scope import Calls
from penstock.errors import BadArgument, ConfigError, Misuse, ScheduleNotFound
from penstock.groups import setting_checks
from penstock.groups.arguments import check_whole_number, checked_time
from penstock.job import State
from penstock.store.enqueue import REQUEST_PARTS, stored_form
from penstock.store.schedules import ScheduleStatements
from penstock.tasks import CatchUp, Overlap, Request, Task
from penstock.tasks import schedule as checked
from penstock.tasks.schedule import Rule, checked_cron, checked_every
from penstock.zone import known_zone

if TYPE_CHECKING:
    from penstock.store import Executor

MAX_SCHEDULES_PER_PAGE: Final = 1000


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule in its present state. Durations are in seconds.

    `source` is `code` or `runtime`. A schedule from code is active while a living worker declares
    it. If `edited_at` is set, the schedule was changed at that time and differs from the code.
    `next_at` is None while the schedule is paused or not active. `last_tick` is its last tick;
    `last_job` is the job of that tick, or `last_why` says why there was none.
    """

    name: str
    task: str
    queue: str
    tenant: str
    args: dict[str, Any]
    cron: str | None
    every: float | None
    timezone: str
    jitter: float
    overlap: str
    catch_up: str
    on_start: bool
    wins: str
    source: str
    edited_at: datetime | None
    paused_at: datetime | None
    is_active: bool
    next_at: datetime | None
    last_tick: datetime | None
    last_job: str | None
    last_why: str | None
    anchor: datetime
    done_until: datetime
    seen_at: datetime

    def upcoming(self, number: int = 5) -> list[datetime]:
        """Return the next ticks in UTC, if the schedule is not changed or paused before them."""
        rule = Rule(self.cron, self.every, self.timezone, self.anchor)
        return list(islice(rule.after(max(self.done_until, self.seen_at)), number))


class Fire(Struct, frozen=True, kw_only=True):
    """The result of a tick: a job, or the reason why there is none.

    `kind` is `tick`, `start` (a new leader started) or `manual`. `why` is `missed`, or by the
    overlap policy `running` or `waiting`: the state of an earlier job. `ticks` is how many ticks
    this entry stands for, at most 1,000. `state` is the state of the job; it is None if there is no
    job, or no longer one.
    """

    tick: datetime
    kind: str
    ticks: int
    job: str | None
    why: str | None
    fired_at: datetime
    state: State | None


class ScheduleCalls(Calls):
    """The calls for schedules. `by` is the name that the audit records for a change."""

    async def set_schedule(
        self,
        name: str,
        what: Request[Any] | Task[..., Any] | EllipsisType = ...,
        *,
        cron: str | EllipsisType = ...,
        every: float | timedelta | EllipsisType = ...,
        timezone: str | EllipsisType = ...,
        jitter: float | timedelta | EllipsisType = ...,
        overlap: Overlap | EllipsisType = ...,
        catch_up: CatchUp | EllipsisType = ...,
        on_start: bool | EllipsisType = ...,
        keep: Collection[str] = (),
        by: str | None = None,
    ) -> Schedule:
        """Change or create a schedule. Settings that you leave out do not change.

        A new request replaces the old one as a whole, except for the parts named in `keep`: `args`,
        or options by name.

            await app.set_schedule("nightly", cron="0 4 * * *")
            await app.set_schedule("import:acme", load.options(tenant="acme").prepare(7), every=600)

        If code declares the schedule, the change stays until `reset_schedule`. If it is declared
        with `wins="code"`, the change stays until the next worker starts.
        """
        checked.schedule_name(name)
        if every is not ... and timezone is not ...:
            raise ConfigError("timezone", timezone, checked.ZONE_OF_INTERVAL)
        changes = _changes(what, cron, every)
        interval = changes.get("every")
        changes |= setting_checks.changed(
            timezone=(timezone, lambda _, value: known_zone(value)),
            jitter=(jitter, lambda name, value: checked.checked_jitter(name, value, interval)),
            overlap=(overlap, checked.checked_overlap),
            catch_up=(catch_up, checked.checked_catch_up),
            on_start=(on_start, setting_checks.yes_or_no),
        )
        if not changes:
            raise TypeError("There is nothing to change: give at least one setting.")
        if "request" in changes and keep:
            changes["keep"] = _checked_parts(keep)
        actor = self._actor(by)
        if not await self._execute(
            lambda on: ScheduleStatements(self.store).change(on, name, changes, actor)
        ):
            raise await self._not_found(name)
        return await self.get_schedule(name)

    async def schedules(
        self, *, after: str | None = None, limit: int = MAX_SCHEDULES_PER_PAGE
    ) -> Sequence[Schedule]:
        """List schedules by name.

        Pass the name of the last schedule as `after` for the next page.
        """
        check_whole_number("limit", limit, 1, MAX_SCHEDULES_PER_PAGE)
        rows = await self._execute(
            lambda on: ScheduleStatements(self.store).page(on, None, after, limit)
        )
        return [_schedule(row) for row in rows]

    async def get_schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises ScheduleNotFound."""
        checked.schedule_name(name)
        rows = await self._execute(
            lambda on: ScheduleStatements(self.store).page(on, name, None, 1)
        )
        if not rows:
            raise await self._not_found(name)
        return _schedule(rows[0])

    async def schedule_fires(
        self, name: str, *, after: datetime | None = None, limit: int = 20
    ) -> Sequence[Fire]:
        """List the results of the last ticks, newest first. Raises ScheduleNotFound.

        Pass the `tick` of the last result as `after` for older results.
        """
        checked.schedule_name(name)
        check_whole_number("limit", limit, 1, MAX_SCHEDULES_PER_PAGE)
        before = checked_time("after", after)
        rows = await self._execute(
            lambda on: ScheduleStatements(self.store).fires(on, name, limit, before)
        )
        if not rows:
            await self.get_schedule(name)
        return [Fire(**row) for row in rows]

    async def pause_schedule(self, name: str, *, by: str | None = None) -> None:
        """Stop a schedule from firing until it is resumed."""
        await self._expect(name, by, ScheduleStatements(self.store).pause)

    async def resume_schedule(self, name: str, *, by: str | None = None) -> None:
        """Let a schedule fire again from its next tick on. Ticks during a pause are skipped."""
        await self._expect(name, by, ScheduleStatements(self.store).resume)

    async def reset_schedule(self, name: str, *, by: str | None = None) -> Schedule:
        """Reset a schedule to what the code declares. Raises BadArgument if no code declares it."""
        if not await self._expect(name, by, ScheduleStatements(self.store).reset):
            raise BadArgument("schedule", name, "one that code declares; no code has declared it")
        return await self.get_schedule(name)

    async def remove_schedule(self, name: str, *, by: str | None = None) -> bool:
        """Remove a schedule; its jobs stay. Return False if it does not exist.

        If code declares the schedule, the next worker that starts adds it again. Pause such a
        schedule instead.
        """
        checked.schedule_name(name)
        actor = self._actor(by)
        return await self._execute(
            lambda on: ScheduleStatements(self.store).remove(on, name, actor)
        )

    async def run_schedule(self, name: str, *, by: str | None = None) -> Enqueued[Any]:
        """Enqueue the job of a schedule now, even if it is paused or an earlier job still runs."""
        job: int = await self._expect(name, by, ScheduleStatements(self.store).run, retry=False)
        return Enqueued(str(job), False)

    async def _expect(
        self,
        name: str,
        by: str | None,
        change: Callable[[Executor, str, str | None], Awaitable[Any]],
        *,
        retry: bool = True,
    ) -> Any:
        """Run a change and return its answer. Raises ScheduleNotFound if the answer is None."""
        checked.schedule_name(name)
        actor = self._actor(by)
        answer = await self._execute(lambda on: change(on, name, actor), retry=retry)
        if answer is None:
            raise await self._not_found(name)
        return answer

    async def _not_found(self, name: str) -> ScheduleNotFound:
        return ScheduleNotFound(
            name, [other.name for other in await self.schedules() if other.name != name]
        )


def _changes(what: Any, cron: Any, every: Any) -> dict[str, Any]:
    """Return the new request and times of a schedule, by the columns of its row."""
    changes: dict[str, Any] = {}
    if what is not ...:
        request = checked.checked_request(what)
        changes |= {"request": stored_form(request), "tenant": request.options.tenant}
    if cron is not ... and every is not ...:
        raise Misuse("A schedule has either cron or every, and both are given.", "every")
    if cron is not ...:
        changes |= {"cron": checked_cron(cron), "every": None}
    if every is not ...:
        changes |= {"every": checked_every(every), "cron": None}
    return changes


def _checked_parts(parts: Collection[str]) -> list[str]:
    """Check the names of the parts of a request to keep, and return them sorted."""
    chosen = set(parts)
    if "args" in chosen:
        chosen.add("args_version")
    if unknown := chosen - REQUEST_PARTS:
        raise BadArgument("keep", sorted(unknown), f"some of {', '.join(sorted(REQUEST_PARTS))}")
    return sorted(chosen)


def _schedule(row: dict[str, Any]) -> Schedule:
    schedule = Schedule(**row | {"args": json.loads(row["args"]), "next_at": None})
    if schedule.paused_at is not None or not schedule.is_active:
        return schedule
    [next_tick] = schedule.upcoming(1)
    return Schedule(**row | {"args": schedule.args, "next_at": next_tick})
