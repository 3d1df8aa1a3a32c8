"""A network that loses answers, and one that swallows everything."""

from contextlib import ExitStack
from typing import Literal

import pytest

from penstock.errors import DatabaseLost
from tests.chaos.scene import Scene, requests
from tests.fixtures.database import connected
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until

JOBS = 10
LEASE = 3.0
# The database lets them live longer than they know: who has to wait for a processor stops late.
LENIENT = """
CREATE FUNCTION chaos.be_lenient() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.expires_at := NEW.expires_at + interval '4 s';
    RETURN NEW;
END
$$;
CREATE TRIGGER be_lenient BEFORE INSERT OR UPDATE OF expires_at ON penstock.lease
    FOR EACH ROW EXECUTE FUNCTION chaos.be_lenient();
"""
WAYS: tuple[Literal["to_server", "to_client", "both"], ...] = ("to_server", "to_client", "both")


async def test_keyed_enqueue_with_a_lost_reply_is_stored_once(scene: Scene, proxy: Proxy) -> None:
    async with scene.app(proxy.url) as app:
        asked = requests(app, "note", count=JOBS, keys="order")
        lost = proxy.drop_reply_after("enqueue_v1")
        enqueued = await app.enqueue_many(asked)
        await lost.wait()
    assert all(each.duplicate for each in enqueued)
    scene.worker("worker")
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == JOBS


async def test_unkeyed_enqueue_with_a_lost_reply_raises(scene: Scene, proxy: Proxy) -> None:
    async with scene.app(proxy.url) as app:
        lost = proxy.drop_reply_after("enqueue_v1")
        with pytest.raises(DatabaseLost, match="may or may not"):
            await app.enqueue_many(requests(app, "note", count=JOBS))
        await lost.wait()
    scene.worker("worker")
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == JOBS


async def test_jobs_of_a_lost_claim_reply_are_released_without_a_loss(
    scene: Scene, proxy: Proxy
) -> None:
    lost = proxy.drop_reply_after("claim_v1")
    await scene.enqueue("note", count=JOBS)
    scene.worker("worker", url=proxy.url)
    await lost.wait()
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["claims released unheard"] == JOBS
    assert verdict.numbers["runs"] == JOBS
    assert await scene.value("SELECT max(losses) FROM penstock.job_history") == 0


async def test_settle_with_a_lost_reply_is_repeated(scene: Scene, proxy: Proxy) -> None:
    lost = proxy.drop_reply_after("settle_v1")
    await scene.enqueue("note", count=JOBS)
    scene.worker("worker", url=proxy.url)
    await lost.wait()
    await scene.drained()
    # The jobs are done, the worker learns it when it asks again.
    await scene.logged("settle", "worker", outcome="ok", count=JOBS)
    verdict = await scene.expect_promises_kept()
    assert scene.log("settle", "worker", outcome="info")
    assert not scene.log("settle", "worker", outcome="fail")
    assert verdict.numbers["runs"] == JOBS


async def test_handlers_commit_with_a_lost_reply_takes_effect_once(
    scene: Scene, proxy: Proxy
) -> None:
    # Only the handler's own transaction says COMMIT.
    lost = proxy.drop_reply_after(lambda sql: sql.rstrip("; ").upper() == "COMMIT")
    [job] = await scene.enqueue("transfer")
    scene.worker("worker", url=proxy.url)
    await lost.wait()
    await scene.drained()
    assert (await scene.row(job))["attempt"] == 1
    await scene.expect_promises_kept()


async def test_workers_cut_off_stop_jobs_before_others_start_them(scene: Scene) -> None:
    async with connected(scene.url) as connection:
        await connection.execute(LENIENT)
    jobs = await scene.enqueue("gated", "work", count=len(WAYS))
    with ExitStack() as stack:
        proxies = {way: stack.enter_context(Proxy(scene.url)) for way in WAYS}
        cut_off = [
            scene.worker(f"cut off {way}", url=proxy.url, slots=1, lease=LEASE, heartbeat=LEASE / 4)
            for way, proxy in proxies.items()
        ]
        await until(lambda: len(scene.effects(what="start")) >= len(jobs), what="all to start")
        for way, proxy in proxies.items():
            proxy.swallow(way)
        scene.worker("other")
        stopped = [await scene.effect(job=job, what="stopped") for job in jobs]
        scene.open_gate("work")
        await scene.drained()
        for stop in stopped:
            [began] = scene.effects(job=stop["job"], what="start", process="other")
            assert stop["at"] < began["at"], stop["process"]
        for worker, proxy in zip(cut_off, proxies.values(), strict=True):
            proxy.heal()
            await scene.event(worker, "LeaseTaken", count=2)
        await scene.expect_promises_kept()
        scene.end()
