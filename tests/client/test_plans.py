"""What a tenant's plan does to its jobs."""

from typing import Any

import pytest

from penstock import Penstock
from tests.fixtures.worker import worker_of


@pytest.fixture
async def note(app: Penstock) -> Any:
    @app.task(name="note", priority=5)
    async def note(text: str = "") -> str:
        return text

    await app.set_plan("gold", priority=10, weight=5)
    await app.set_plan("free", priority=-10)
    await app.set_tenant("acme", plan="gold")
    await app.set_tenant("mini", plan="free")
    return note


async def priority_of(app: Penstock, note: Any, **options: Any) -> int:
    return (await app.get(await app.enqueue(note.options(**options)))).priority


async def test_the_priority_of_a_plan_is_added_to_the_jobs(app: Penstock, note: Any) -> None:
    assert await priority_of(app, note, tenant="acme") == 15
    assert await priority_of(app, note, tenant="mini") == -5
    assert await priority_of(app, note, tenant="acme", priority=-3) == 7
    assert await priority_of(app, note, tenant="other") == 5
    assert await priority_of(app, note) == 5


async def test_a_priority_stays_within_its_bounds(app: Penstock, note: Any) -> None:
    assert await priority_of(app, note, tenant="acme", priority=100) == 100
    assert await priority_of(app, note, tenant="mini", priority=-100) == -100


async def test_jobs_in_bulk_have_the_priority_of_their_own_tenants(
    app: Penstock, note: Any
) -> None:
    tenants = ["mini", "", "acme", "other"]
    jobs = await app.enqueue_many(note.options(tenant=name).prepare() for name in tenants)
    assert [(await app.get(job)).priority for job in jobs] == [-5, 5, 15, 5]


async def test_a_change_of_plan_holds_for_jobs_from_now_on(app: Penstock, note: Any) -> None:
    before = await app.enqueue(note.options(tenant="acme"))
    await app.set_plan("gold", priority=20)
    assert await priority_of(app, note, tenant="acme") == 25
    await app.set_tenant("acme", plan=None)
    assert await priority_of(app, note, tenant="acme") == 5
    assert (await app.get(before)).priority == 15


async def test_who_pays_more_is_served_first_in_a_plain_queue(app: Penstock, note: Any) -> None:
    ran: list[str] = []

    @app.task(name="run")
    async def run(name: str) -> None:
        ran.append(name)

    for name in ("mini", "other", "acme"):
        await app.enqueue(run.options(tenant=name), name)
    await worker_of(app, {"default": 1}).drain(seconds=10)
    assert ran == ["acme", "other", "mini"]
