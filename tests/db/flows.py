"""Workflows made by the queue's SQL functions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.db.engine import Engine

Edge = int | tuple[int, str]


class Flow:
    """One workflow; its jobs are added with what they wait for, by ids."""

    def __init__(self, engine: Engine, id: int) -> None:
        self.engine = engine
        self.id = id

    @classmethod
    async def new(cls, engine: Engine, tenant: str = "") -> "Flow":
        insert = "INSERT INTO penstock.workflow (tenant) VALUES ($1) RETURNING id"
        return cls(engine, await engine.connection.fetchval(insert, tenant))

    def by(self, engine: Engine) -> "Flow":
        """The same workflow over another connection."""
        return Flow(engine, self.id)

    async def add(
        self, after: Sequence[Edge] = (), before: Sequence[Edge] = (), step: str = "step"
    ) -> int:
        [id] = await self.add_all([(after, before, step)])
        return id

    async def add_all(
        self, steps: Sequence[tuple[Sequence[Edge], Sequence[Edge], str]]
    ) -> list[int]:
        rows = await self.engine.call(
            "enqueue_v1",
            tasks=["work"] * len(steps),
            args=["{}"] * len(steps),
            workflow=self.id,
            steps=[step for _, _, step in steps],
            parents=[edges(after) for after, _, _ in steps],
            children=[edges(before) for _, before, _ in steps],
            now=self.engine.now,
        )
        return [row["id"] for row in rows]

    async def add_unique(
        self,
        keys: Sequence[str | None],
        on_conflict: str = "skip",
        after: Mapping[int, int] | None = None,
        before: Mapping[int, int] | None = None,
    ) -> list[int]:
        """A step for each key; by its place (from 1 on) the place of its parent, or its child."""
        rules = [key and json.dumps({"key": key, "on_conflict": on_conflict}) for key in keys]
        parents = {step: json.dumps([{"at": place}]) for step, place in (after or {}).items()}
        children = {step: edges([job]) for step, job in (before or {}).items()}
        places = range(1, len(keys) + 1)
        rows = await self.engine.call(
            "enqueue_v1",
            tasks=["work"] * len(keys),
            args=["{}"] * len(keys),
            uniques=rules,
            workflow=self.id,
            parents=[parents.get(place) for place in places],
            children=[children.get(place) for place in places],
        )
        return [row["id"] for row in rows]

    async def fan_in(self, count: int, on_failure: str = "cancel") -> tuple[list[int], int]:
        """Jobs that are ready, and one that waits for all of them."""
        parents = await self.add_all([((), (), f"part {n}") for n in range(count)])
        return parents, await self.add([(each, on_failure) for each in parents], step="merge")

    async def edge(self, parent: int, child: int) -> bool:
        """Whether the edge is counted."""
        return bool(
            await self.engine.connection.fetchval(
                "SELECT satisfied FROM penstock.dependency WHERE parent = $1 AND child = $2",
                parent,
                child,
            )
        )


def edges(given: Sequence[Edge]) -> str | None:
    if not given:
        return None
    pairs = [each if isinstance(each, tuple) else (each, "cancel") for each in given]
    return json.dumps([{"job": job, "on_failure": policy} for job, policy in pairs])


async def run(engine: Engine, *ids: int, state: str = "completed", **columns: Any) -> None:
    """Claim all that is ready, and settle those that are named; the others go back."""
    claimed = await engine.claim(await engine.lease(), limit=20_000)
    mine = [each for each in claimed if each["id"] in ids]
    assert len(mine) == len(ids), f"not ready: {set(ids) - {each['id'] for each in mine}}"
    reason = None if state == "completed" else "exhausted"
    assert await engine.settle(mine, states=state, reasons=reason, **columns) == {}
    await engine.settle([each for each in claimed if each["id"] not in ids], states="ready")


async def state(engine: Engine, id: int) -> tuple[str, str | None, int]:
    row = await engine.job(id)
    return row["state"], row["reason"], row["pending"]
