"""What a tenant is told of subjects under row level security: its own, and no more."""

import httpx
import pytest

from penstock import Penstock, task
from tests.fixtures.live import Heard, hear, listened_to
from tests.rls.conftest import Ground

pytestmark = pytest.mark.any_server


@task
async def work() -> None: ...


async def test_a_tenant_is_told_of_its_own_subjects_alone(ground: Ground) -> None:
    async with Penstock(ground.app_url, include=[work]) as app:
        acme, globex = app.for_tenant("acme"), app.for_tenant("globex")
        own = await acme.enqueue(work.options(requested_by="ada"))
        other = await globex.enqueue(work.options(requested_by="ada"))
        async with globex.batch() as batch:
            pass
        ids = [own.id, other.id]

        assert set(await acme.present("job", ids)) == {own.id}
        assert set(await globex.present("job", ids)) == {other.id}
        assert not await acme.present("batch", [batch.id])
        assert set(await globex.present("batch", [batch.id])) == {batch.id}
        assert set(await acme.present("tenant", ["acme", "globex"])) == {"acme"}
        assert (await acme.present("tenant", ["acme"]))["acme"].state.ready == 1  # type: ignore[union-attr]
        assert (await acme.present("user", ["ada"]))["ada"].state.ready == 1  # type: ignore[union-attr]
        assert not await acme.present("queue", ["default"])


@pytest.mark.parametrize("kind", ["job", "batch", "tenant", "user"])
async def test_an_app_without_a_tenant_is_told_nothing(ground: Ground, kind: str) -> None:
    async with Penstock(ground.app_url, include=[work]) as app:
        job = await app.for_tenant("acme").enqueue(work.options(requested_by=None))
        found = await app.present(kind, [job.id])  # type: ignore[arg-type]
    assert all(getattr(each.state, "ready", 0) == 0 for each in found.values())


async def test_live_stream_shows_a_tenants_own_subjects_only(ground: Ground) -> None:
    async with Penstock(ground.app_url, include=[work]) as app:
        acme, globex = app.for_tenant("acme"), app.for_tenant("globex")
        own = await acme.enqueue(work.options(requested_by="ada"))
        other = await globex.enqueue(work.options(requested_by="ada"))
        async with globex.batch() as batch:
            pass
        async with listened_to(app) as server:

            async def heard(subject: str, caller: str | None = "ada@acme") -> Heard:
                url = f"{server.live}/{subject}"
                return await hear(url, caller=caller, until=lambda heard: bool(heard.events))

            assert (await heard(f"job/{own.id}")).last["state"]["tenant"] == "acme"
            assert (await heard("tenant/acme")).last["state"]["ready"] == 1
            assert (await heard("user/ada")).last["state"]["ready"] == 1
            strange = (f"job/{other.id}", f"batch/{batch.id}", "tenant/globex", "queue/default")
            for subject in strange:
                assert (await heard(subject)).status == 404, subject
            # A ticket names what it likes: its bearer sees what the caller does who asked for it.
            async with httpx.AsyncClient(verify=False, timeout=30) as http:
                asked = {"subjects": [f"job/{own.id}", f"job/{other.id}"]}
                headers = {"x-caller": "ada@acme"}
                answer = await http.post(f"{server.live}/tickets", json=asked, headers=headers)
            ticket = answer.json()["ticket"]
            assert (await heard(f"job/{own.id}?ticket={ticket}", None)).status == 200
            assert (await heard(f"job/{other.id}?ticket={ticket}", None)).status == 404
