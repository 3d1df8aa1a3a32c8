"""What is set for queues, lanes, limits, plans, tenants and history: changed while workers run."""

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
from penstock.store.grants import Limits
from penstock.store.tuning import Settings
from penstock.tasks.options import QUEUE_NAME, limit_key, matching, whole
from penstock.tasks.options import seconds as in_seconds
from penstock.windows import Windows
from penstock.wording import span


class QueueSettings(Struct, frozen=True, kw_only=True):
    """What holds for a queue. `ageing` and `late_after` are seconds, `windows` None is always."""

    name: str
    fair: bool
    lane_key: str
    ageing: float | None
    windows: Windows | None
    late_after: float | None
    paused: bool


class LaneSettings(Struct, frozen=True, kw_only=True):
    """What holds for one lane of a queue; `weight` is how many jobs it gets in each turn."""

    queue: str
    lane: str
    weight: int
    windows: Windows | None
    late_after: float | None
    paused: bool


class Limit(Struct, frozen=True, kw_only=True):
    """What a key may take: how many run at once, how many start in a second and in a burst."""

    key: str
    slots: int | None
    rate: float | None
    burst: float | None


class Plan(Struct, frozen=True, kw_only=True):
    """What tenants pay for: a priority added to their jobs', and the weight of their lanes."""

    name: str
    priority: int
    weight: int
    late_after: float | None


class Tenant(Struct, frozen=True, kw_only=True):
    """What holds for a tenant."""

    name: str
    plan: str | None
    late_after: float | None


class Retention(Struct, frozen=True, kw_only=True):
    """How many days jobs that end in a state are kept; no queue or no tenant means any."""

    state: State
    days: int
    queue: str
    tenant: str


def with_windows(row: dict[str, Any]) -> dict[str, Any]:
    """The row, its windows read."""
    text = row["windows"]
    return row | {"windows": None if text is None else Windows.read(json.loads(text))}


T = TypeVar("T")

SETTINGS_AT_ONCE: Final = 1000
_UNKNOWN_ZONE: Final = "22023"
_OF_LIMITS: Final = ("limit_setting_burst_with_rate", "limit_setting_limits_something")


class SettingCalls(Calls):
    """The calls that change settings and read them back.

    `...` leaves a setting as it is, None takes it away. Workers hear of a change at once. `by` says
    in the audit who made it; without it that is the database's role.
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
        """Change a queue: turns between lanes, ageing, opening hours, the soft deadline.

            await app.set_queue("imports", fair=True)                       # turns between tenants
            await app.set_queue("reports", windows=Windows("22:00-06:00"))  # at night only

        `lane_key` says what the lanes of a fair queue are: `tenant` (None), `task`, `subject`,
        `requested_by`, `args.NAME` or `meta.NAME`. It holds for jobs that are enqueued from now on.
        """
        matching("queue", name, QUEUE_NAME)
        changes = setting_checks.given(
            fair=(fair, setting_checks.yes_or_no),
            lane_key=(lane_key, setting_checks.lane_key),
            ageing=(ageing, setting_checks.duration),
            windows=(windows, setting_checks.windows),
            late_after=(late_after, setting_checks.duration),
        )
        row = await self._tune(
            lambda tuning, on: tuning.set_queue(on, name, changes, self._actor(by)), changes
        )
        return QueueSettings(**with_windows(row))

    async def queue_settings(self) -> Sequence[QueueSettings]:
        """What is set for queues; those that nobody has set anything for are not here."""
        rows = await self._ask(Settings(self.store).queues)
        return [QueueSettings(**with_windows(row)) for row in rows]

    async def pause(self, queue: str) -> None:
        """Let no worker claim from a queue; what runs goes on."""
        matching("queue", queue, QUEUE_NAME)
        await self._ask(lambda on: self.store.pause(on, queue, by=self._by))

    async def resume(self, queue: str) -> None:
        """Let workers claim from a queue again."""
        matching("queue", queue, QUEUE_NAME)
        await self._ask(lambda on: self.store.resume(on, queue, by=self._by))

    async def paused(self) -> Sequence[str]:
        """The queues that are paused."""
        return await self._ask(self.store.paused)

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
        """Change one lane of a queue, such as one tenant's: its weight, a pause, its hours.

        await app.set_lane("imports", "acme", weight=3)      # three jobs in each turn
        """
        matching("queue", queue, QUEUE_NAME)
        setting_checks.lane(lane)
        changes = setting_checks.given(
            weight=(weight, setting_checks.weight),
            paused=(paused, setting_checks.yes_or_no),
            windows=(windows, setting_checks.windows),
            late_after=(late_after, setting_checks.duration),
        )
        row = await self._tune(
            lambda tuning, on: tuning.set_lane(on, queue, lane, changes, self._actor(by)), changes
        )
        return LaneSettings(**with_windows(row))

    async def remove_lane(self, queue: str, lane: str, *, by: str | None = None) -> bool:
        """Forget what was set for a lane. False if nothing was."""
        matching("queue", queue, QUEUE_NAME)
        setting_checks.lane(lane)
        return await self._ask(
            lambda on: Settings(self.store).remove_lane(on, queue, lane, self._actor(by))
        )

    async def lane_settings(
        self, queue: str, *, after: str | None = None, limit: int = SETTINGS_AT_ONCE
    ) -> Sequence[LaneSettings]:
        """What is set for lanes of a queue, by name; pass the last one as `after` for more."""
        matching("queue", queue, QUEUE_NAME)
        whole("limit", limit, 1, SETTINGS_AT_ONCE)
        rows = await self._ask(lambda on: Settings(self.store).lanes(on, queue, after, limit))
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
        """Limit a key over all workers: `slots` at once, `rate` in a second, `burst` after a rest.

            await app.set_limit("openai", slots=10, rate="500/min")
            await app.set_limit("queue:imports", slots=50)
            await app.set_limit("lane:imports:*", slots=4)      # each tenant of the queue
            await app.set_limit("task:render", slots=2)

        A rate without a burst has one of what comes in a second, at least 1.
        """
        setting_checks.key(key)
        changes = setting_checks.given(
            slots=(slots, setting_checks.slots),
            rate=(rate, setting_checks.rate),
            burst=(burst, setting_checks.burst),
        )
        row = await self._tune(
            lambda tuning, on: tuning.set_limit(on, key, changes, self._actor(by)), changes
        )
        return Limit(**row)

    async def remove_limit(self, key: str, *, by: str | None = None) -> bool:
        """Limit a key no more. False if it was not limited."""
        limit_key("key", key)
        return await self._ask(
            lambda on: Settings(self.store).remove_limit(on, key, self._actor(by))
        )

    async def limits(self) -> Sequence[Limit]:
        """The limits by their keys."""
        return [Limit(**row) for row in await self._ask(Settings(self.store).limits)]

    async def close_bucket(self, key: str, seconds: float | timedelta) -> float:
        """Let no job of a key start for a while, as a 429 with a `Retry-After` does.

        Returns the seconds until it opens: never less than was known before.
        """
        limit_key("key", key)
        length = in_seconds("seconds", seconds)
        return await self._ask(lambda on: Limits(self.store).shut_bucket(on, key, length, self._by))

    async def open_bucket(self, key: str) -> bool:
        """Open a key again before its time. False if it was not closed."""
        limit_key("key", key)
        return await self._ask(lambda on: Limits(self.store).open_bucket(on, key, self._by))

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
        """Change what tenants pay for.

            await app.set_plan("gold", priority=10, weight=5)
            await app.set_tenant("acme", plan="gold")

        `priority` is added to that of jobs that are enqueued from now on; `weight` holds at once.
        """
        limit_key("plan", name)
        changes = setting_checks.given(
            priority=(priority, setting_checks.priority),
            weight=(weight, setting_checks.weight),
            late_after=(late_after, setting_checks.duration),
        )
        row = await self._tune(
            lambda tuning, on: tuning.set_plan(on, name, changes, self._actor(by)), changes
        )
        return Plan(**row)

    async def remove_plan(self, name: str, *, by: str | None = None) -> bool:
        """Take a plan away that no tenant has. False if there is none of this name."""
        limit_key("plan", name)
        removed, tenants = await self._ask(
            lambda on: Settings(self.store).remove_plan(on, name, self._actor(by))
        )
        if tenants:
            held = "1 tenant has" if tenants == 1 else f"{tenants} tenants have"
            raise ConfigError("plan", name, f"a plan without tenants, and {held} it: move them")
        return removed

    async def plans(self) -> Sequence[Plan]:
        """The plans by their names."""
        return [Plan(**row) for row in await self._ask(Settings(self.store).plans)]

    async def set_tenant(
        self,
        name: str,
        *,
        plan: str | EllipsisType | None = ...,
        late_after: float | timedelta | EllipsisType | None = ...,
        by: str | None = None,
    ) -> Tenant:
        """Change what holds for a tenant: its plan, its soft deadline."""
        limit_key("tenant", name)
        changes = setting_checks.given(
            plan=(plan, setting_checks.plan), late_after=(late_after, setting_checks.duration)
        )
        row = await self._tune(
            lambda tuning, on: tuning.set_tenant(on, name, changes, self._actor(by)), changes
        )
        if row is None:
            known = ", ".join(each.name for each in await self.plans()) or "none yet"
            raise ConfigError("plan", plan, f"a plan that was made before; there are: {known}")
        return Tenant(**row)

    async def remove_tenant(self, name: str, *, by: str | None = None) -> bool:
        """Forget what was set for a tenant; its jobs stay. False if nothing was."""
        limit_key("tenant", name)
        return await self._ask(
            lambda on: Settings(self.store).remove_tenant(on, name, self._actor(by))
        )

    async def tenants(
        self,
        *,
        plan: str | None = None,
        after: str | None = None,
        limit: int = SETTINGS_AT_ONCE,
    ) -> Sequence[Tenant]:
        """The tenants that something is set for; pass the last one's name as `after` for more."""
        whole("limit", limit, 1, SETTINGS_AT_ONCE)
        rows = await self._ask(lambda on: Settings(self.store).tenants(on, plan, after, limit))
        return [Tenant(**row) for row in rows]

    async def _tune(
        self, change: Callable[[Settings, Executor], Awaitable[T]], changes: dict[str, Any]
    ) -> T:
        """Change something; what only the database can refuse comes back in words."""
        if not changes:
            raise TypeError("Nothing is to change: give at least one setting.")

        async def ask(on: Executor) -> T:
            try:
                return await change(Settings(self.store), on)
            except Exception as error:
                if errors.is_state(error, _UNKNOWN_ZONE) and changes.get("windows"):
                    zone = changes["windows"]["timezone"]
                    raise ConfigError("timezone", zone, "one that the database knows") from error
                if errors.constraint(error) in _OF_LIMITS:
                    raise _unfit(changes) from error
                raise

        return await self._ask(ask)


def _unfit(changes: dict[str, Any]) -> ConfigError:
    """What is wrong with a limit that would be left with neither slots nor a rate."""
    if changes.get("burst") is not None:
        return ConfigError("burst", changes["burst"], "a burst only with a rate: set one as well")
    name = next(iter(changes))
    return ConfigError(
        name,
        changes[name],
        "a number, unless the limit has the other one of slots and a rate; "
        "remove_limit, or `penstock limits remove`, takes it away",
    )


LONGEST: Final = 400
LOCK_PAUSE_S: Final = 0.2
_LOCKED: Final = ("55P03", "40P01")


class RetentionCalls(Calls):
    """The calls that say how long history is kept.

    A job's end decides for it: the rule of its queue and tenant, else its tenant's, else its
    queue's, else the one for all, else 7 days, or 30 if it failed. Up to 14 days are exact. A job
    that is kept for up to 90 goes on the Monday after them, one that is kept for longer on the
    first of the next month.
    """

    async def set_retention(
        self, state: State, days: int, *, queue: str = "", tenant: str = "", by: str | None = None
    ) -> Retention:
        """Keep jobs that end in a state for so many days: all, a queue's, a tenant's or of both.

            await app.set_retention("completed", 3)
            await app.set_retention("failed", 90, queue="documents")

        It holds for jobs that end from now on.
        """
        _check(state, queue, tenant)
        whole("days", days, 0, LONGEST)
        row = await self._ask_past_locks(
            lambda on: Settings(self.store).set_retention(
                on, state, days, queue, tenant, self._actor(by)
            )
        )
        return Retention(**row)

    async def remove_retention(
        self, state: State, *, queue: str = "", tenant: str = "", by: str | None = None
    ) -> bool:
        """Take a rule away; the next wider one holds then. False if there was none."""
        _check(state, queue, tenant)
        return await self._ask_past_locks(
            lambda on: Settings(self.store).remove_retention(
                on, state, queue, tenant, self._actor(by)
            )
        )

    async def retentions(self) -> Sequence[Retention]:
        """The rules that somebody has set, the general ones first."""
        return [Retention(**row) for row in await self._ask(Settings(self.store).retentions)]

    async def _ask_past_locks(
        self,
        question: Callable[[Executor], Awaitable[T]],
        undone: str = "The retention was not changed",
        *,
        again: bool = True,
    ) -> T:
        """Ask again while a vacuum, say, keeps partitions from being made; name it at the end.

        `undone` says what did not come about then, `again` is as for other questions.

        A single try does not wait for such a lock: whoever waits for it makes settles wait.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._connector.database.call_timeout
        while True:
            try:
                return await self._ask(question, again=again)
            except DatabaseBusy as error:
                if self._connection is not None or error.sqlstate not in _LOCKED:
                    raise
                if clock() + LOCK_PAUSE_S >= deadline:
                    raise await self._still_locked(error, undone) from error
            await asyncio.sleep(LOCK_PAUSE_S)

    async def _still_locked(self, error: DatabaseBusy, undone: str) -> DatabaseBusy:
        holders = await self._ask(Settings(self.store).lock_holders)
        if not holders:
            return error
        told = "; ".join(
            f"process {each['pid']} ({each['who']}, for {span(each['seconds'] or 0)}) on "
            f"{each['table']}: {each['query']}"
            for each in holders
        )
        return DatabaseBusy(
            f"{undone}: it may need new partitions, and the history is locked by {told}. Try "
            "again when that has ended, or end it: "
            f"SELECT pg_cancel_backend({holders[0]['pid']});",
            sqlstate=error.sqlstate,
        )


def _check(state: Any, queue: Any, tenant: Any) -> None:
    if state not in FINAL:
        final = [each for each in STATES if each in FINAL]
        raise BadArgument("state", state, f"one of {', '.join(final)}")
    if queue != "":
        matching("queue", queue, QUEUE_NAME)
    if tenant != "":
        limit_key("tenant", tenant)
