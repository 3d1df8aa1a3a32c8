"""All faults in any order, over many jobs. The seed is printed; PENSTOCK_SEED repeats a run."""

import os
import random
import secrets
from dataclasses import dataclass

import pytest

from tests.chaos.crashing import CrashingServer
from tests.chaos.faults import Faults
from tests.chaos.scene import Scene
from tests.fixtures.proxy import Proxy

WORKERS = 3


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of everything."""

    jobs: int
    faults: dict[str, int]


SHORT = Scale(
    jobs=500,
    faults={"kill": 2, "kill at a failpoint": 2, "freeze": 1, "swallow": 1, "crash": 1},
)
LONG = Scale(
    jobs=6000,
    faults={
        "kill": 12,
        "kill at a failpoint": 8,
        "kill by a job": 4,
        "freeze": 6,
        "stop": 3,
        "end connections": 8,
        "cut": 4,
        "swallow": 5,
        "crash": 5,
    },
)
SCALE = LONG if os.environ.get("PENSTOCK_LONG") else SHORT


@pytest.mark.timeout(900)
async def test_random_faults_neither_lose_jobs_nor_let_stale_writes_in(
    crashing_scene: Scene, server: CrashingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = crashing_scene
    seed = int(os.environ.get("PENSTOCK_SEED") or secrets.randbelow(1_000_000))
    with capsys.disabled():
        print(f"\nPENSTOCK_SEED={seed}")
    rng = random.Random(seed)
    plan = [name for name, times in SCALE.faults.items() for _ in range(times)]
    rng.shuffle(plan)
    with Proxy(server.url) as proxy:
        faults = Faults(scene, server, proxy, rng)
        for _ in range(WORKERS):
            faults.hire()
        producer = scene.enqueuer("producer", jobs=SCALE.jobs, seed=seed)
        for number, name in enumerate(plan, 1):
            await faults.progress(SCALE.jobs * number // (len(plan) + 1))
            await faults.strike(name)
        await faults.ended(producer)
        faults.hire()  # one that no failpoint waits for
        await scene.drained(60.0)
        verdict = await scene.expect_promises_kept(patience=60)
        faults.replace_the_dead()
        scene.end()
    with capsys.disabled():
        print(f"{dict(faults.counts)}\n{verdict}")
    assert verdict.numbers["jobs completed"] >= 0.9 * SCALE.jobs
