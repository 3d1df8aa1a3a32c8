"""What a tenant is told of subjects under row level security: its own, and no more."""

import pytest

from penstock import Penstock, task
from tests.rls.conftest import Ground


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
