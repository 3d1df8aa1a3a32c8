"""Random faults: which, when and to whom is all decided by one seed."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count

from tests.chaos.crashing import CrashingServer
from tests.chaos.process import Process
from tests.chaos.scene import Scene
from tests.fixtures.database import connected
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until

LEASE = 1.5
KINDS = ("penstock", "penstock worker", "penstock heartbeat", "penstock listener", "chaos transfer")
PLACES = ("claim.before", "claim.after", "settle.before", "settle.after")
TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1
"""


class Faults:
    """Hurts some workers in every way there is, and replaces those that die."""

    def __init__(
        self, scene: Scene, server: CrashingServer, proxy: Proxy, rng: random.Random
    ) -> None:
        self._scene = scene
        self._server = server
        self._proxy = proxy
        self._rng = rng
        self._numbers = count(1)
        self._workers: list[Process] = []
        self.counts: Counter[str] = Counter()

    def hire(self, failpoint: str | None = None) -> None:
        """Start a worker; every other one reaches the database through the proxy."""
        number = next(self._numbers)
        url = self._proxy.url if number % 2 else self._scene.url
        worker = self._scene.worker(
            f"worker-{number}", url=url, failpoint=failpoint, lease=LEASE, heartbeat=LEASE / 5
        )
        self._workers.append(worker)

    def replace_the_dead(self) -> None:
        dead = [worker for worker in self._workers if not worker.is_running]
        for worker in dead:
            self._workers.remove(worker)
            self.counts["deaths"] += 1
            self.hire()

    async def progress(self, done: int) -> None:
        """Wait until so many handlers are done; whoever dies meanwhile is replaced."""

        def enough() -> bool:
            self.replace_the_dead()
            return self._scene.done_so_far() >= done

        await until(enough, 120.0, what=f"{done} handlers to be done")

    async def ended(self, producer: Process) -> None:
        """Wait until everything is enqueued."""

        def is_over() -> bool:
            self.replace_the_dead()
            return not producer.is_running

        await until(is_over, 120.0, what="everything to be enqueued")
        assert producer.code == 0, producer.words

    async def strike(self, name: str) -> None:
        strikes: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "kill at a failpoint": self._kill_at_a_failpoint,
            "kill by a job": self._kill_by_a_job,
            "freeze": self._freeze,
            "stop": self._stop,
            "end connections": self._end_connections,
            "cut": self._cut,
            "swallow": self._swallow,
            "crash": self._crash,
        }
        self.counts[name] += 1
        await strikes[name]()
        self.replace_the_dead()

    def _victim(self) -> Process:
        return self._rng.choice(self._workers)

    async def _kill(self) -> None:
        self._victim().kill()

    async def _kill_at_a_failpoint(self) -> None:
        """It dies sooner or later by itself; a killed one makes room for it."""
        victim = self._victim()
        victim.kill()
        self._workers.remove(victim)
        self.counts["deaths"] += 1
        self.hire(f"{self._rng.choice(PLACES)}:kill:{self._rng.randint(1, 5)}")

    async def _kill_by_a_job(self) -> None:
        await self._scene.enqueue("dies", 1)

    async def _freeze(self) -> None:
        victim = self._victim()
        victim.freeze()
        await asyncio.sleep(self._rng.uniform(0.5, 2) * LEASE)
        victim.thaw()

    async def _stop(self) -> None:
        victim = self._victim()
        await victim.ready()
        victim.ask_to_stop()
        code = await victim.ended()
        assert code in (0, -9), f"{victim.name} ended with {code}:\n{victim.words}"

    async def _end_connections(self) -> None:
        async with connected(self._server.admin_url) as admin:
            await admin.execute(TERMINATE, self._rng.choice(KINDS))

    async def _cut(self) -> None:
        self._proxy.cut()

    async def _swallow(self) -> None:
        self._proxy.swallow(self._rng.choice(("to_server", "to_client", "both")))
        await asyncio.sleep(self._rng.uniform(0.2, 2) * LEASE)
        self._proxy.heal()

    async def _crash(self) -> None:
        await self._server.crash(away=self._rng.uniform(0, 3))
        self._scene.crashes += 1
