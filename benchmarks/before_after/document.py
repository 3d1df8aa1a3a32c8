"""Before and after, as one document."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.before_after import side
from benchmarks.before_after.commit import Commit
from benchmarks.before_after.ratio import Ratio
from benchmarks.before_after.scenes import Scene
from benchmarks.comparison import rounds
from benchmarks.comparison.document import entered
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import Postgres
from benchmarks.comparison.spread import Spread
from penstock.bench.child import BenchFailed
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import SandboxServer, machine

Measured = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Sides:
    """Two commits, and the older one a second time to see what the machine makes of equals."""

    before: Commit
    now: Commit
    again: bool = True

    def named(self) -> list[tuple[str, Commit]]:
        again = [(f"{self.before.name} again", self.before)] if self.again else []
        return [(self.before.name, self.before), (self.now.name, self.now), *again]


class BeforeAfter:
    """The sides in some scenes; `together` if it does not matter how fast they are."""

    def __init__(
        self,
        postgres: Postgres,
        plan: Plan,
        live: LiveLine,
        sides: Sides,
        *,
        together: bool = False,
    ) -> None:
        self._postgres = postgres
        self._plan = plan
        self._live = live
        self._sides = sides
        self._together = together

    async def measure(self, scenes: Sequence[Scene], jobs: int) -> dict[str, Any]:
        """One scene after the other; in each, all sides take turns."""
        busy = machine()
        found = {scene.name: await self._scene(scene, scene.jobs(jobs)) for scene in scenes}
        return {
            "before": self._sides.before.name,
            "now": self._sides.now.name,
            "rounds": self._plan.rounds,
            "scenes": found,
            **(await SandboxServer.of(self._postgres.admin)).as_dict(),
            "machine": busy,
        }

    async def _scene(self, scene: Scene, jobs: int) -> dict[str, Any]:
        before, now, *again = await self._measured(scene, jobs)
        ratios = _ratios(before, now)
        spread = _ratios(before, again[0]) if again else {}
        return {
            "jobs": jobs,
            "rows": {
                key: {
                    "before": Spread.of(before[key]).as_dict(),
                    "now": Spread.of(now[key]).as_dict(),
                    "ratio": ratio.as_dict(),
                    **({"spread": spread[key].as_dict()} if key in spread else {}),
                }
                for key, ratio in ratios.items()
            },
        }

    async def _measured(self, scene: Scene, jobs: int) -> list[Measured]:
        with self._live.doing(f"{scene.name}: can they be driven?"):
            entrants = await asyncio.gather(
                *(
                    asyncio.to_thread(side.entrant, commit, scene.name, jobs, name)
                    for name, commit in self._sides.named()
                )
            )
        async with entered(self._postgres, self._plan, self._live, entrants) as lanes:
            if self._together:
                await rounds.together(lanes, scene.measurements)
            else:
                await rounds.run(lanes, self._plan.rounds, self._live, scene.measurements)
        for entrant in entrants:
            if entrant.fault is not None:
                raise BenchFailed(f"{scene.name} of {entrant.facts.name}: {entrant.fault}")
        return [lane.results.measured() for lane in lanes]


def _ratios(before: Measured, now: Measured) -> dict[str, Ratio]:
    """Of all that both of them have, and that is not nothing."""
    return {
        key: Ratio.of(seen, now[key])
        for key, seen in before.items()
        if len(seen) == len(now.get(key, ())) > 0 and all(seen)
    }
