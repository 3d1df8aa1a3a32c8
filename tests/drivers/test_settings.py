"""Settings changed inside a caller's transaction, whatever library began it."""

import pytest

from penstock import Penstock, Windows
from penstock.errors import ConfigError
from penstock.groups.settings import Limit, QueueSettings
from tests.drivers.callers import Caller, few


@few
async def test_settings_are_changed_and_read_with_the_transaction(
    app: Penstock, caller: Caller
) -> None:
    nights = Windows("22:00-06:00", timezone="Europe/Berlin")
    found = await caller.transact(
        lambda jobs: jobs.set_queue("reports", fair=True, windows=nights, by="anna")
    )
    assert isinstance(found, QueueSettings)
    assert found.windows == nights
    limited = await caller.transact(lambda jobs: jobs.set_limit("openai", rate="600/min"))
    assert limited == Limit(key="openai", slots=None, rate=10.0, burst=10.0)
    await caller.transact(lambda jobs: jobs.set_lane("reports", "acme", weight=3, paused=True))
    await caller.transact(lambda jobs: jobs.set_plan("gold", priority=5))
    await caller.transact(lambda jobs: jobs.set_tenant("acme", plan="gold"))
    assert [each.plan for each in await app.tenants()] == ["gold"]
    assert await caller.transact(lambda jobs: jobs.remove_tenant("acme"), commit=False)
    assert await caller.transact(lambda jobs: jobs.remove_tenant("acme"))
    assert await caller.transact(lambda jobs: jobs.close_bucket("openai", 60)) == 60.0
    assert await caller.transact(lambda jobs: jobs.open_bucket("openai"))


@few
async def test_what_only_the_database_refuses_is_said_in_words(
    app: Penstock, caller: Caller
) -> None:
    with pytest.raises(ConfigError, match="left out unless the limit has a rate"):
        await caller.transact(lambda jobs: jobs.set_limit("openai", burst=5))
    assert list(await app.limits()) == []
