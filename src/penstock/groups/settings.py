"""Change settings of queues, lanes, limits, plans, tenants and retention while workers run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import EllipsisType
from typing import Any, Final, TypeVar

from msgspec import Struct

from penstock.connect.scope import Calls
from penstock.errors import BadArgument, ConfigError, DatabaseBusy
from penstock.groups import setting_checks
from penstock.job import FINAL, STATES, State
from penstock.store import Executor, errors
from penstock.store.grants import LimitStatements
from penstock.store.tuning import SettingStatements
from penstock.tasks.options import QUEUE_NAME, check_name, check_whole_number, limit_key
from penstock.tasks.options import seconds as in_seconds
from penstock.windows import Windows
from penstock.wording import span


class QueueSettings(Struct, frozen=True, kw_only=True):
    """The settings of a queue. `ageing` and `late_after` are in seconds.

    The queue is always open if `windows` is None.
    """

    name: str
    fair: bool
    lane_key: str
    ageing: float | None
    windows: Windows | None
    late_after: float | None
    paused: bool


class LaneSettings(Struct, frozen=True, kw_only=True):
    """The settings of a lane. `weight` is how many jobs it may start in each of its turns."""

    queue: str
    lane: str
    weight: int
    windows: Windows | None
    late_after: float | None
    paused: bool


class Limit(Struct, frozen=True, kw_only=True):
    """The limit of a key, over all workers.

    At most `slots` jobs run at once. At most `rate` jobs start per second, and `burst` at once
    after a pause.
    """

    key: str
    slots: int | None
    rate: float | None
    burst: float | None


class Plan(Struct, frozen=True, kw_only=True):
    """A plan of tenants: a number to add to the priority of their jobs, and a weight for lanes."""

    name: str
    priority: int
    weight: int
    late_after: float | None


class Tenant(Struct, frozen=True, kw_only=True):
    """The settings of a tenant."""

    name: str
    plan: str | None
    late_after: float | None


class Retention(Struct, frozen=True, kw_only=True):
    """How many days jobs that end in a state are kept. An empty queue or tenant stands for all."""

    state: State
    days: int
    queue: str
    tenant: str


def with_windows(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its windows decoded."""
    text = row["windows"]
    return row | {"windows": None if text is None else Windows.read(json.loads(text))}


T = TypeVar("T")

MAX_SETTINGS_PER_PAGE: Final = 1000
_UNKNOWN_ZONE: Final = "22023"
_OF_LIMITS: Final = ("limit_setting_burst_with_rate", "limit_setting_limits_something")


class SettingCalls(Calls):
    """The calls that change and read settings.

    `...` does not change a setting, and None removes it. Running workers apply a change at once.
    `by` is the name that the audit records for a change. Without it, the audit records the database
    role.
    """

    # Queues and lanes

    async def set_queue(
        self,
        name: str,
        *,
        fair: bool | EllipsisType = ...,
        lane_key: str | EllipsisType | None = ...,
        ageing: float | timedelta | EllipsisType | None = ...,
        windows: Windows | EllipsisType | None = ...,
        late_after: float | timedelta | EllipsisType | None = ...,
        by: str | None = None,
    ) -> QueueSettings:
        """Change a queue: its fairness between lanes, ageing, opening hours and soft deadline.

            await app.set_queue("imports", fair=True)                       # turns between tenants
            await app.set_queue("reports", windows=Windows("22:00-06:00"))  # at night only

        `lane_key` says what the lanes of a fair queue are: `tenant` (None), `task`, `subject`,
        `requested_by`, `args.NAME` or `meta.NAME`. It applies to jobs enqueued from now on.
        """
        check_name("queue", name, QUEUE_NAME)
        changes = setting_checks.changed(
            fair=(fair, setting_checks.yes_or_no),
            lane_key=(lane_key, setting_checks.lane_key),
            ageing=(ageing, setting_checks.duration),
            windows=(windows, setting_checks.windows),
            late_after=(late_after, setting_checks.duration),
        )
        row = await self._change_settings(
            lambda settings, on: settings.set_queue(on, name, changes, self._actor(by)), changes
        )
        return QueueSettings(**with_windows(row))

    async def queue_settings(self) -> Sequence[QueueSettings]:
        """Return the settings of the queues whose settings somebody has changed."""
        rows = await self._execute(SettingStatements(self.store).queues)
        return [QueueSettings(**with_windows(row)) for row in rows]

    async def pause(self, queue: str) -> None:
        """Stop workers from claiming jobs of a queue. Running jobs continue."""
        check_name("queue", queue, QUEUE_NAME)
        await self._execute(lambda on: self.store.pause(on, queue, by=self._by))

    async def resume(self, queue: str) -> None:
        """Let workers claim jobs of a queue again."""
        check_name("queue", queue, QUEUE_NAME)
        await self._execute(lambda on: self.store.resume(on, queue, by=self._by))

    async def paused(self) -> Sequence[str]:
        """Return the names of the paused queues."""
        return await self._execute(self.store.paused)

    async def set_lane(
        self,
        queue: str,
        lane: str,
        *,
        weight: int | EllipsisType = ...,
        paused: bool | EllipsisType = ...,
        windows: Windows | EllipsisType | None = ...,
        late_after: float | timedelta | EllipsisType | None = ...,
        by: str | None = None,
    ) -> LaneSettings:
        """Change one lane of a queue: its weight, pause, opening hours and soft deadline.

        await app.set_lane("imports", "acme", weight=3)      # three jobs in each turn
        """
        check_name("queue", queue, QUEUE_NAME)
        setting_checks.lane(lane)
        changes = setting_checks.changed(
            weight=(weight, setting_checks.weight),
            paused=(paused, setting_checks.yes_or_no),
            windows=(windows, setting_checks.windows),
            late_after=(late_after, setting_checks.duration),
        )
        row = await self._change_settings(
            lambda settings, on: settings.set_lane(on, queue, lane, changes, self._actor(by)),
            changes,
        )
        return LaneSettings(**with_windows(row))

    async def remove_lane(self, queue: str, lane: str, *, by: str | None = None) -> bool:
        """Remove the settings of a lane. Return False if there were none."""
        check_name("queue", queue, QUEUE_NAME)
        setting_checks.lane(lane)
        return await self._execute(
            lambda on: SettingStatements(self.store).remove_lane(on, queue, lane, self._actor(by))
        )

    async def lane_settings(
        self, queue: str, *, after: str | None = None, limit: int = MAX_SETTINGS_PER_PAGE
    ) -> Sequence[LaneSettings]:
        """Return the settings of the lanes of a queue.

        Pass the name of the last lane as `after` for the next page.
        """
        check_name("queue", queue, QUEUE_NAME)
        check_whole_number("limit", limit, 1, MAX_SETTINGS_PER_PAGE)
        rows = await self._execute(
            lambda on: SettingStatements(self.store).lanes(on, queue, after, limit)
        )
        return [LaneSettings(**with_windows(row)) for row in rows]

    # Limits

    async def set_limit(
        self,
        key: str,
        *,
        slots: int | EllipsisType | None = ...,
        rate: float | str | EllipsisType | None = ...,
        burst: float | EllipsisType | None = ...,
        by: str | None = None,
    ) -> Limit:
        """Limit a key over all workers: `slots` at once, `rate` per second, `burst` after a pause.

            await app.set_limit("openai", slots=10, rate="500/min")
            await app.set_limit("queue:imports", slots=50)
            await app.set_limit("lane:imports:*", slots=4)      # each tenant of the queue
            await app.set_limit("task:render", slots=2)

        Without a `burst`, as many jobs may start at once as the rate allows in one second, and at
        least one.
        """
        setting_checks.key(key)
        changes = setting_checks.changed(
            slots=(slots, setting_checks.slots),
            rate=(rate, setting_checks.rate),
            burst=(burst, setting_checks.burst),
        )
        row = await self._change_settings(
            lambda settings, on: settings.set_limit(on, key, changes, self._actor(by)), changes
        )
        return Limit(**row)

    async def remove_limit(self, key: str, *, by: str | None = None) -> bool:
        """Remove the limit of a key. Return False if it had none."""
        limit_key("key", key)
        return await self._execute(
            lambda on: SettingStatements(self.store).remove_limit(on, key, self._actor(by))
        )

    async def limits(self) -> Sequence[Limit]:
        """Return all limits, by key."""
        return [Limit(**row) for row in await self._execute(SettingStatements(self.store).limits)]

    async def close_bucket(self, key: str, seconds: float | timedelta) -> float:
        """Stop jobs of a key from starting for a while, such as after a 429 with a `Retry-After`.

        Return the seconds until jobs may start again. A call never shortens a pause that
        a previous call has set.
        """
        limit_key("key", key)
        length = in_seconds("seconds", seconds)
        return await self._execute(
            lambda on: LimitStatements(self.store).shut_bucket(on, key, length, self._by)
        )

    async def open_bucket(self, key: str) -> bool:
        """Open the bucket of a key before its time. Return False if it was not closed."""
        limit_key("key", key)
        return await self._execute(
            lambda on: LimitStatements(self.store).open_bucket(on, key, self._by)
        )

    # Plans and tenants

    async def set_plan(
        self,
        name: str,
        *,
        priority: int | EllipsisType = ...,
        weight: int | EllipsisType = ...,
        late_after: float | timedelta | EllipsisType | None = ...,
        by: str | None = None,
    ) -> Plan:
        """Change or create a plan of tenants.

            await app.set_plan("gold", priority=10, weight=5)
            await app.set_tenant("acme", plan="gold")

        `priority` is added to the priority of jobs that are enqueued from now on. `weight` applies
        at once.
        """
        limit_key("plan", name)
        changes = setting_checks.changed(
            priority=(priority, setting_checks.priority),
            weight=(weight, setting_checks.weight),
            late_after=(late_after, setting_checks.duration),
        )
        row = await self._change_settings(
            lambda settings, on: settings.set_plan(on, name, changes, self._actor(by)), changes
        )
        return Plan(**row)

    async def remove_plan(self, name: str, *, by: str | None = None) -> bool:
        """Remove a plan that no tenant has. Return False if it does not exist."""
        limit_key("plan", name)
        removed, tenants = await self._execute(
            lambda on: SettingStatements(self.store).remove_plan(on, name, self._actor(by))
        )
        if tenants:
            holders = "1 tenant has" if tenants == 1 else f"{tenants} tenants have"
            raise ConfigError(
                "plan",
                name,
                f"a plan without tenants, but {holders} it; give them another plan first",
            )
        return removed

    async def plans(self) -> Sequence[Plan]:
        """Return all plans, by name."""
        return [Plan(**row) for row in await self._execute(SettingStatements(self.store).plans)]

    async def set_tenant(
        self,
        name: str,
        *,
        plan: str | EllipsisType | None = ...,
        late_after: float | timedelta | EllipsisType | None = ...,
        by: str | None = None,
    ) -> Tenant:
        """Change the settings of a tenant: its plan and its soft deadline."""
        limit_key("tenant", name)
        changes = setting_checks.changed(
            plan=(plan, setting_checks.plan), late_after=(late_after, setting_checks.duration)
        )
        row = await self._change_settings(
            lambda settings, on: settings.set_tenant(on, name, changes, self._actor(by)), changes
        )
        if row is None:
            known = ", ".join(existing.name for existing in await self.plans()) or "none yet"
            raise ConfigError(
                "plan", plan, f"the name of an existing plan; existing plans: {known}"
            )
        return Tenant(**row)

    async def remove_tenant(self, name: str, *, by: str | None = None) -> bool:
        """Remove the settings of a tenant; its jobs stay. Return False if there were none."""
        limit_key("tenant", name)
        return await self._execute(
            lambda on: SettingStatements(self.store).remove_tenant(on, name, self._actor(by))
        )

    async def tenants(
        self,
        *,
        plan: str | None = None,
        after: str | None = None,
        limit: int = MAX_SETTINGS_PER_PAGE,
    ) -> Sequence[Tenant]:
        """Return the settings of tenants, by name.

        Pass the name of the last tenant as `after` for the next page.
        """
        check_whole_number("limit", limit, 1, MAX_SETTINGS_PER_PAGE)
        rows = await self._execute(
            lambda on: SettingStatements(self.store).tenants(on, plan, after, limit)
        )
        return [Tenant(**row) for row in rows]

    async def _change_settings(
        self, change: Callable[[SettingStatements, Executor], Awaitable[T]], changes: dict[str, Any]
    ) -> T:
        """Change settings, and translate errors that only the database can detect."""
        if not changes:
            raise TypeError("There is nothing to change: give at least one setting.")

        async def apply(on: Executor) -> T:
            try:
                return await change(SettingStatements(self.store), on)
            except Exception as error:
                if errors.is_state(error, _UNKNOWN_ZONE) and changes.get("windows"):
                    zone = changes["windows"]["timezone"]
                    raise ConfigError(
                        "timezone", zone, "a time zone that the database knows"
                    ) from error
                if errors.constraint(error) in _OF_LIMITS:
                    raise _incomplete_limit(changes) from error
                raise

        return await self._execute(apply)


def _incomplete_limit(changes: dict[str, Any]) -> ConfigError:
    """Return the error for a limit with neither slots nor a rate, or with a burst but no rate."""
    if changes.get("burst") is not None:
        return ConfigError(
            "burst", changes["burst"], "left out unless the limit has a rate; set a rate as well"
        )
    name = next(iter(changes))
    return ConfigError(
        name,
        changes[name],
        "a number, because a limit needs slots or a rate; to remove the limit, use remove_limit "
        "or `penstock limits remove`",
    )


MAX_RETENTION_DAYS: Final = 400
LOCK_RETRY_S: Final = 0.2
_LOCKED: Final = ("55P03", "40P01")


class RetentionCalls(Calls):
    """The calls that set how long ended jobs are kept.

    When a job ends, the most specific rule applies: a rule for its queue and tenant, then one for
    its tenant, then one for its queue, then the general rule. Without a rule, failed jobs are kept
    for 30 days and other jobs for 7 days.

    A retention of up to 14 days is exact. Jobs that are kept for up to 90 days are removed on the
    Monday after that time, and jobs that are kept longer on the first of the next month.
    """

    async def set_retention(
        self, state: State, days: int, *, queue: str = "", tenant: str = "", by: str | None = None
    ) -> Retention:
        """Set how many days jobs that end in a state are kept, for all jobs or a queue or tenant.

            await app.set_retention("completed", 3)
            await app.set_retention("failed", 90, queue="documents")

        The rule applies to jobs that end from now on.
        """
        _check(state, queue, tenant)
        check_whole_number("days", days, 0, MAX_RETENTION_DAYS)
        row = await self._execute_past_locks(
            lambda on: SettingStatements(self.store).set_retention(
                on, state, days, queue, tenant, self._actor(by)
            )
        )
        return Retention(**row)

    async def remove_retention(
        self, state: State, *, queue: str = "", tenant: str = "", by: str | None = None
    ) -> bool:
        """Remove a rule, so that the next more general one applies.

        Return False if there was no such rule.
        """
        _check(state, queue, tenant)
        return await self._execute_past_locks(
            lambda on: SettingStatements(self.store).remove_retention(
                on, state, queue, tenant, self._actor(by)
            )
        )

    async def retentions(self) -> Sequence[Retention]:
        """Return the rules that have been set, general ones first."""
        return [
            Retention(**row)
            for row in await self._execute(SettingStatements(self.store).retentions)
        ]

    async def _execute_past_locks(
        self,
        operation: Callable[[Executor], Awaitable[T]],
        failure: str = "The retention was not changed",
        *,
        retry: bool = True,
    ) -> T:
        """Run an operation, and retry it while a lock prevents new partitions, such as a vacuum's.

        If the lock is held for too long, raise an error that names the session that holds it.
        `failure` is the first part of the message. `retry` is passed to `_execute`.

        A single try does not wait for such a lock, since a waiting request would block settling.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._connector.database.call_timeout
        while True:
            try:
                return await self._execute(operation, retry=retry)
            except DatabaseBusy as error:
                if self._connection is not None or error.sqlstate not in _LOCKED:
                    raise
                if clock() + LOCK_RETRY_S >= deadline:
                    raise await self._lock_error(error, failure) from error
            await asyncio.sleep(LOCK_RETRY_S)

    async def _lock_error(self, error: DatabaseBusy, failure: str) -> DatabaseBusy:
        holders = await self._execute(SettingStatements(self.store).lock_holders)
        if not holders:
            return error
        sessions = "; ".join(
            f"process {holder['pid']} ({holder['who']}, for {span(holder['seconds'] or 0)}) on "
            f"{holder['table']}: {holder['query']}"
            for holder in holders
        )
        return DatabaseBusy(
            f"{failure}: it may need new partitions, and the history is locked by {sessions}. Try "
            "again when that has ended, or end it: "
            f"SELECT pg_cancel_backend({holders[0]['pid']});",
            sqlstate=error.sqlstate,
        )


def _check(state: Any, queue: Any, tenant: Any) -> None:
    if state not in FINAL:
        final = [name for name in STATES if name in FINAL]
        raise BadArgument("state", state, f"one of {', '.join(final)}")
    if queue != "":
        check_name("queue", queue, QUEUE_NAME)
    if tenant != "":
        limit_key("tenant", tenant)
