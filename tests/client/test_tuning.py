"""Settings of queues, lanes, limits, plans and tenants: changed at run time, and read back."""

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import DatabaseError, Penstock, zone
from penstock.errors import ConfigError
from penstock.groups.settings import LaneSettings, Limit, Plan, QueueSettings, Tenant
from penstock.windows import Windows

NIGHTS = Windows("mon-fri 22:00-06:00", "sat,sun 00:00-24:00", timezone="Europe/Berlin")


def queue(name: str = "imports", **set_: Any) -> QueueSettings:
    kept: dict[str, Any] = {"fair": False, "lane_key": "tenant", "paused": False}
    return QueueSettings(
        **{"name": name, "ageing": None, "windows": None, "late_after": None, **kept, **set_}
    )


def limit(key: str = "openai", **set_: Any) -> Limit:
    return Limit(**{"key": key, "slots": None, "rate": None, "burst": None, **set_})


# Queues


async def test_what_is_given_changes_and_the_rest_stays(app: Penstock) -> None:
    assert await app.set_queue("imports", fair=True) == queue(fair=True)
    changed = await app.set_queue(
        "imports", lane_key="args.account", windows=NIGHTS, late_after=timedelta(minutes=5)
    )
    everything = queue(fair=True, lane_key="args.account", windows=NIGHTS, late_after=300.0)
    assert changed == everything
    assert list(await app.queue_settings()) == [everything]
    changed = await app.set_queue("imports", lane_key=None, windows=None, ageing=60)
    assert changed == queue(fair=True, ageing=60.0, late_after=300.0)


async def test_a_queue_that_is_paused_stays_so(app: Penstock) -> None:
    await app.pause("imports")
    assert (await app.set_queue("imports", fair=True)).paused
    await app.resume("imports")
    assert list(await app.queue_settings()) == [queue(fair=True)]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fair", "yes"),
        ("lane_key", "args"),
        ("lane_key", "colour"),
        ("ageing", 0),
        ("ageing", "1m"),
        ("windows", "22:00-06:00"),
        ("late_after", -1),
    ],
)
async def test_a_queue_takes_only_what_is_allowed(
    app: Penstock, setting: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=f"The setting {setting} is "):
        await app.set_queue("imports", **{setting: value})
    with pytest.raises(ConfigError, match="The setting queue is"):
        await app.set_queue("two words", fair=True)
    assert list(await app.queue_settings()) == []


async def test_a_time_zone_that_only_the_database_misses_is_refused(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zone, "available_timezones", set)
    windows = Windows("22:00-06:00", timezone="Mars/Olympus")
    changes = (app.set_queue("imports", windows=windows), app.set_lane("q", "a", windows=windows))
    for change in changes:
        with pytest.raises(ConfigError, match=r"timezone is 'Mars/Olympus'.*the database knows"):
            await change
    assert list(await app.queue_settings()) == []


async def test_a_call_that_changes_nothing_is_a_slip(app: Penstock) -> None:
    with pytest.raises(TypeError, match="at least one setting"):
        await app.set_queue("imports")


# Lanes


async def test_a_lane_has_a_weight_a_pause_and_hours(app: Penstock) -> None:
    changed = await app.set_lane("imports", "acme", weight=3, windows=NIGHTS)
    acme = {"queue": "imports", "lane": "acme", "late_after": None}
    assert changed == LaneSettings(**acme, weight=3, windows=NIGHTS, paused=False)
    changed = await app.set_lane("imports", "acme", paused=True, windows=None)
    assert changed == LaneSettings(**acme, weight=3, windows=None, paused=True)
    assert not (await app.set_lane("imports", "acme", paused=False)).paused


async def test_lanes_are_read_in_parts(app: Penstock) -> None:
    for lane in ("", "acme", "beta", "corp"):
        await app.set_lane("imports", lane, weight=2)
    await app.set_lane("other", "acme", weight=2)
    first = await app.lane_settings("imports", limit=3)
    assert [each.lane for each in first] == ["", "acme", "beta"]
    rest = await app.lane_settings("imports", after="beta", limit=3)
    assert [each.lane for each in rest] == ["corp"]


async def test_what_was_set_for_a_lane_is_forgotten(app: Penstock) -> None:
    await app.set_lane("imports", "acme", weight=2)
    assert await app.remove_lane("imports", "acme")
    assert not await app.remove_lane("imports", "acme")
    assert list(await app.lane_settings("imports")) == []


@pytest.mark.parametrize("weight", [0, 1001, 1.5, True, None])
async def test_a_weight_is_from_1_to_1000(app: Penstock, weight: Any) -> None:
    for change in (
        app.set_lane("imports", "acme", weight=weight),
        app.set_plan("gold", weight=weight),
    ):
        with pytest.raises(ConfigError, match=r"The setting weight is .*from 1 to 1000"):
            await change


@pytest.mark.parametrize("name", ["a\x1fb", "\0", "x" * 201, 5])
async def test_names_are_what_a_row_can_have(app: Penstock, name: Any) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: app.set_lane("imports", name, weight=1),
        lambda: app.set_limit(name, slots=1),
        lambda: app.set_plan(name, weight=1),
        lambda: app.set_tenant(name, late_after=1),
        lambda: app.remove_limit(name),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=r"The setting (lane|key|plan|tenant) is"):
            await call()


# Limits


async def test_a_key_is_limited_in_slots_and_by_a_rate(app: Penstock) -> None:
    assert await app.set_limit("openai", slots=10) == limit(slots=10)
    changed = await app.set_limit("openai", rate="600/min", burst=100)
    assert changed == limit(slots=10, rate=10.0, burst=100.0)
    assert await app.set_limit("openai", slots=None) == limit(rate=10.0, burst=100.0)
    await app.set_limit("task:render", slots=0)
    assert [each.key for each in await app.limits()] == ["openai", "task:render"]


async def test_a_constraint_of_the_users_own_is_told_as_such(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "ALTER TABLE penstock.limit_setting ADD CONSTRAINT limit_setting_ours CHECK (slots < 100)"
    )
    with pytest.raises(DatabaseError, match="limit_setting_ours"):
        await app.set_limit("openai", slots=500)


async def test_a_burst_is_what_comes_in_a_second_and_at_least_one(app: Penstock) -> None:
    assert (await app.set_limit("fast", rate=50)).burst == 50.0
    assert (await app.set_limit("slow", rate="6/min")).burst == 1.0


async def test_a_burst_that_nobody_gave_follows_the_rate(app: Penstock) -> None:
    await app.set_limit("openai", rate=10)
    assert (await app.set_limit("openai", rate=1000)).burst == 1000.0
    await app.set_limit("openai", burst=5000)
    assert (await app.set_limit("openai", rate=10)).burst == 5000.0
    assert (await app.set_limit("openai", burst=None)).burst == 10.0


async def test_without_a_rate_there_is_no_burst(app: Penstock) -> None:
    await app.set_limit("openai", slots=1, rate=10)
    assert await app.set_limit("openai", rate=None) == limit(slots=1)
    with pytest.raises(ConfigError, match="left out unless the limit has a rate"):
        await app.set_limit("openai", burst=10)
    with pytest.raises(ConfigError, match="left out unless the limit has a rate"):
        await app.set_limit("another", slots=1, burst=10)


@pytest.mark.parametrize(
    "key",
    ["queue:", "queue:two words", "task:", "lane:", "lane:imports", "lane::acme", "a*b", "**"],
)
async def test_a_key_that_no_job_can_have_is_refused(app: Penstock, key: str) -> None:
    with pytest.raises(ConfigError, match="The setting key is"):
        await app.set_limit(key, slots=1)
    assert not await app.remove_limit(key)


@pytest.mark.parametrize(
    "key",
    [
        "queue:*",
        "queue:im*",
        "task:*",
        "task:a.b",
        "lane:*",
        "lane:im*",
        "lane:imports:",
        "*",
        "a:*",
    ],
)
async def test_a_key_that_some_job_can_have_is_limited(app: Penstock, key: str) -> None:
    assert (await app.set_limit(key, slots=1)).key == key


async def test_a_limit_that_limits_nothing_is_refused(app: Penstock) -> None:
    await app.set_limit("openai", slots=1)
    with pytest.raises(ConfigError, match="remove_limit"):
        await app.set_limit("openai", slots=None)
    assert list(await app.limits()) == [limit(slots=1)]


async def test_a_limit_is_taken_away_with_its_bucket(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await app.set_limit("openai", rate=10)
    await connection.execute("INSERT INTO penstock.bucket VALUES ('openai', 5, now())")
    assert await app.remove_limit("openai")
    assert not await app.remove_limit("openai")
    assert await connection.fetchval("SELECT count(*) FROM penstock.bucket") == 0


# Plans and tenants


async def test_a_tenant_has_a_plan(app: Penstock) -> None:
    gold = await app.set_plan("gold", priority=10, weight=5)
    assert gold == Plan(name="gold", priority=10, weight=5, late_after=None)
    assert (await app.set_plan("gold", late_after=60)).priority == 10
    acme = await app.set_tenant("acme", plan="gold")
    assert acme == Tenant(name="acme", plan="gold", late_after=None)
    await app.set_tenant("beta", late_after=30)
    assert [each.name for each in await app.plans()] == ["gold"]
    assert [each.name for each in await app.tenants()] == ["acme", "beta"]
    assert [each.name for each in await app.tenants(plan="gold")] == ["acme"]
    assert [each.name for each in await app.tenants(after="acme")] == ["beta"]


async def test_a_plan_that_is_not_there_is_refused_with_those_that_are(app: Penstock) -> None:
    await app.set_plan("gold", weight=5)
    await app.set_tenant("acme", plan="gold")
    for name in ("acme", "new"):
        with pytest.raises(ConfigError, match=r"plan is 'glod'.*existing plans: gold"):
            await app.set_tenant(name, plan="glod")
    assert [each.plan for each in await app.tenants()] == ["gold"]


async def test_a_plan_with_tenants_stays(app: Penstock) -> None:
    await app.set_plan("gold", weight=5)
    await app.set_tenant("acme", plan="gold")
    with pytest.raises(ConfigError, match="1 tenant has it"):
        await app.remove_plan("gold")
    await app.set_tenant("acme", plan=None)
    assert await app.remove_plan("gold")
    assert not await app.remove_plan("gold")
    assert await app.remove_tenant("acme")
    assert list(await app.tenants()) == []


# What every change does


async def test_every_change_tells_workers_and_is_in_the_audit(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    version = "SELECT version FROM penstock.setting_version"
    before = await connection.fetchval(version)
    await app.set_queue("imports", fair=True, by="anna")
    await app.set_lane("imports", "acme", weight=2, by="anna")
    await app.set_limit("openai", slots=1)
    await app.set_plan("gold", weight=2)
    await app.set_tenant("acme", plan="gold")
    await app.remove_tenant("acme")
    await app.remove_plan("gold")
    await app.remove_limit("openai")
    await app.remove_lane("imports", "acme")
    await app.remove_lane("imports", "nobody")  # was not there: no entry
    assert await connection.fetchval(version) >= before + 9
    rows = await connection.fetch("SELECT * FROM penstock.audit ORDER BY id")
    assert [(row["action"], row["target"]) for row in rows] == [
        ("set_queue", "imports"),
        ("set_lane", "imports:acme"),
        ("set_limit", "openai"),
        ("set_plan", "gold"),
        ("set_tenant", "acme"),
        ("remove_tenant", "acme"),
        ("remove_plan", "gold"),
        ("remove_limit", "openai"),
        ("remove_lane", "imports:acme"),
    ]
    assert (rows[0]["actor"], json.loads(rows[0]["detail"])) == ("anna", {"fair": True})
    assert rows[2]["actor"] == await connection.fetchval("SELECT session_user")
    assert rows[4]["tenant"] == "acme"


async def test_a_change_can_be_part_of_a_transaction(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await app.inside(connection).set_limit("openai", slots=1)
    await transaction.rollback()
    assert list(await app.limits()) == []


async def test_a_key_is_closed_for_a_while_and_opened_before_its_time(app: Penstock) -> None:
    assert await app.close_bucket("openai", timedelta(seconds=60)) == 60.0
    assert await app.close_bucket("openai", 5) == pytest.approx(60, abs=5)
    assert await app.open_bucket("openai")
    assert not await app.open_bucket("openai")
    with pytest.raises(ConfigError, match="The setting seconds is"):
        await app.close_bucket("openai", -1)
