"""Connections that the server ends, of each kind, while there is work."""

import os

from tests.chaos.scene import Scene
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until

TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1
"""
KINDS = ("penstock", "penstock worker", "penstock heartbeat", "penstock listener", "chaos transfer")
ROUNDS = 12 if os.environ.get("PENSTOCK_LONG") else 2
JOBS = 200


async def test_terminated_connections_are_reopened_without_losses(
    scene: Scene, database: Database
) -> None:
    worker = scene.worker("worker")
    producer = scene.enqueuer("producer", jobs=JOBS, seed=1, until="enough")
    async with connected(database.admin_url) as admin:
        for number, kind in enumerate(KINDS * ROUNDS, 1):
            await scene.done(20 * number)
            await until(
                lambda kind=kind: admin.fetchval(TERMINATE, kind), what=f"a connection of {kind}"
            )
    (scene.folder / "enough").touch()
    assert await producer.ended() == 0, producer.words
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == verdict.numbers["jobs"] >= JOBS - 10 * ROUNDS
    assert worker.is_running
