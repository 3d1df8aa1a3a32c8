"""Jobs that agree with a filter are found page by page, each once."""

from datetime import timedelta
from typing import Any

import pytest

from penstock.store import Store
from penstock.store.matching import Match, matches
from tests.db.engine import NOON, Engine
from tests.fixtures.dead import dead

STORE = Store()
LIVE = ["scheduled", "ready", "running", "blocked"]
FINAL = ["completed", "failed", "cancelled"]


def which(states: list[str] | None = None, **filter: Any) -> list[Any]:
    names = ("queue", "task", "tenant", "subject", "tag", "batch", "workflow", "above", "below")
    return [states, *(filter.get(name) for name in names)]


async def found(engine: Engine, filter: list[Any], size: int = 2) -> list[int]:
    """All that are found, by pages of a size."""
    ids: list[int] = []
    after: Match | None = None
    while True:
        page = await matches(STORE, engine.connection, filters=filter, after=after, limit=size)
        ids += [match.id for match in page]
        if len(page) < size:
            return ids
        after = page[-1]


async def jobs_of_all_kinds(engine: Engine) -> dict[str, list[int]]:
    """Live ones, and final ones in several partitions each."""
    live = await engine.enqueue(5)
    failed = [int(job) for job in await dead(engine.connection, 7)]
    cancelled = await engine.enqueue(5)
    await engine.answers("cancel_v1", *cancelled)
    for later, job in enumerate(cancelled):
        day = NOON.date() + timedelta(days=later // 2 + 1)
        await engine.connection.execute(
            "UPDATE penstock.job_history SET expires_on = $2 WHERE id = $1", job, day
        )
    return {"live": live, "failed": failed, "cancelled": cancelled}


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_each_job_is_found_once_whatever_the_size_of_a_page(
    engine: Engine, size: int
) -> None:
    jobs = await jobs_of_all_kinds(engine)
    for states, expected in (
        (LIVE, jobs["live"]),
        (["failed"], jobs["failed"]),
        (["cancelled"], jobs["cancelled"]),
        (FINAL, jobs["failed"] + jobs["cancelled"]),
        (["ready", "failed"], jobs["live"] + jobs["failed"]),
        (None, [job for each in jobs.values() for job in each]),
    ):
        assert sorted(await found(engine, which(states), size)) == sorted(expected), states


async def test_every_part_of_a_filter_holds_for_live_and_ended_jobs(engine: Engine) -> None:
    batch = await engine.connection.fetchval(
        "INSERT INTO penstock.batch DEFAULT VALUES RETURNING id"
    )
    filters: dict[str, Any] = {
        "queue": "mail",
        "task": "send",
        "tenant": "acme",
        "subject": "document:1",
        "tag": "new",
        "batch": batch,
    }
    columns = {"queues": "mail", "tasks": "send", "tenants": "acme", "subjects": "document:1"}
    await engine.enqueue(3)
    rows = await engine.call(
        "enqueue_v1",
        args=["{}"] * 4,
        tags=['["new"]'] * 4,
        batch=batch,
        **{name: [value] * 4 for name, value in columns.items()},
    )
    ids = [row["id"] for row in rows]
    await engine.answers("cancel_v1", *ids[:2])
    for name, value in filters.items():
        assert sorted(await found(engine, which(**{name: value}))) == ids, name
        assert await found(engine, which(**{name: 0 if name == "batch" else "other"})) == [], name
    assert sorted(await found(engine, which(**filters))) == ids
    assert sorted(await found(engine, which(above=ids[0], below=ids[3]))) == ids[1:3]


async def test_what_fails_again_meanwhile_is_not_found_again(engine: Engine) -> None:
    jobs = sorted(int(job) for job in await dead(engine.connection, 5))
    seen: list[int] = []
    after: Match | None = None
    while True:
        page = await matches(
            STORE, engine.connection, filters=which(["failed"]), after=after, limit=2
        )
        for match in page:
            seen.append(match.id)
            assert await engine.answers("retry_v1", match.id) == {match.id: "ready"}
        lease = await engine.lease()
        claimed = await engine.claim(lease)
        await engine.settle(claimed, states="failed", reasons="exhausted")
        if len(page) < 2:
            break
        after = page[-1]
    assert sorted(seen) == jobs
