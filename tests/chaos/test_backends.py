"""Connections that the server ends, of each kind, while there is work."""

import pytest

from tests.chaos.scene import Scene
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until

TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1
"""
ROUNDS = 4
JOBS = 200


@pytest.mark.parametrize(
    "kind",
    ["penstock", "penstock worker", "penstock heartbeat", "penstock listener", "chaos transfer"],
)
async def test_a_process_whose_connections_are_ended_connects_again_and_loses_nothing(
    scene: Scene, database: Database, kind: str
) -> None:
    worker = scene.worker("worker")
    producer = scene.enqueuer("producer", jobs=JOBS, seed=1, until="enough")
    async with connected(database.admin_url) as admin:
        for number in range(1, ROUNDS + 1):
            await scene.done(20 * number)
            await until(lambda: admin.fetchval(TERMINATE, kind), what=f"a connection of {kind}")
    (scene.folder / "enough").touch()
    assert await producer.ended() == 0, producer.words
    await scene.drained()
    verdict = await scene.expect_promises_kept()
    assert verdict.numbers["jobs completed"] == verdict.numbers["jobs"] >= JOBS - 10 * ROUNDS
    assert worker.is_running
