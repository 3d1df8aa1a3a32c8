"""The calls whose plans matter, each over twenty jobs of a backlog of any length."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg

from penstock.store import Store
from penstock.store.insights import LiveQueries
from tests.db.engine import LONG_AGO, Engine
from tests.plans.backlog import DUE, FINAL, LATE, LIVING, OWN, RUNNING, token

LINES = [("", 1), ("", 0), ("tenant 1", 1), ("tenant 1", 0), ("tenant 2", 1), ("tenant 2", 0)]
FEW = 20

Call = Callable[[asyncpg.Connection], Awaitable[object]]


def function(name: str, **arguments: Any) -> Call:
    """A function with its arguments."""
    return lambda connection: Engine(connection).call(name, **arguments)


def claim(start: datetime) -> Call:
    return lambda connection: Engine(connection).claim(
        LIVING, FEW, lines=LINES, cursors=[(start, 0)] * len(LINES)
    )


def claim_in_turns(connection: asyncpg.Connection) -> Awaitable[object]:
    cursors = [(LONG_AGO, 0)] * len(LINES)
    return Engine(connection).claim(
        LIVING, FEW, lines=LINES, cursors=cursors, takes=[1] * len(LINES)
    )


def settle(ids: range, **columns: Any) -> Call:
    attempts = [{"id": id, "token": token(id)} for id in ids]
    return lambda connection: Engine(connection).settle(attempts, **columns)


def enqueue(connection: asyncpg.Connection) -> Awaitable[object]:
    return Engine(connection).enqueue(FEW)


def enqueue_unique(on_conflict: str, hold: str = "live") -> Call:
    """Of keys that jobs of the backlog hold."""

    async def call(connection: asyncpg.Connection) -> object:
        await connection.execute(
            "INSERT INTO penstock.unique_claim (kind, tenant, key, job)"
            " SELECT 'unique', '', j, j FROM unnest($1::bigint[]) AS j ON CONFLICT DO NOTHING",
            list(DUE),
        )
        rules = [{"key": str(job), "on_conflict": on_conflict, "hold": hold} for job in DUE]
        return await Engine(connection).call(
            "enqueue_v1",
            tasks=["work"] * len(DUE),
            args=["{}"] * len(DUE),
            uniques=[json.dumps(rule) for rule in rules],
            options='{"notify": true}',
        )

    return call


def progress(connection: asyncpg.Connection) -> Awaitable[object]:
    return Engine(connection).call(
        "save_progress_v1",
        ids=list(RUNNING),
        tokens=[token(id) for id in RUNNING],
        done=[1.0] * FEW,
        totals=[2.0] * FEW,
        messages=[None] * FEW,
    )


def keep_step(connection: asyncpg.Connection) -> Awaitable[object]:
    return Engine(connection).call(
        "save_step_v1",
        job=RUNNING[0],
        token=token(RUNNING[0]),
        kind="step",
        name="fetch",
        result="1",
    )


def wait_for_event(connection: asyncpg.Connection) -> Awaitable[object]:
    return Engine(connection).call(
        "await_event_v1",
        job=RUNNING[0],
        token=token(RUNNING[0]),
        step="approved:1",
        name="approved",
        after=0,
        timeout=60.0,
    )


def watch(*ids: int) -> Call:
    return lambda connection: LiveQueries(Store()).jobs(connection, ids, 1000)


def watch_owners(connection: asyncpg.Connection) -> Awaitable[object]:
    return LiveQueries(Store()).owners(connection, tenants=["acme"], within=None, newest=100)


MIDDLE = datetime.now(UTC) - timedelta(seconds=500)
OLD_TOKENS = [uuid4() for _ in RUNNING]

PKEY, HISTORY = "job_pkey", "job_history_pkey"

# Called all the time: each by the indexes named, and by no other.
HOT: dict[str, tuple[Call, set[str]]] = {
    "claim": (claim(LONG_AGO), {"job_ready", PKEY}),
    "claim from a cursor": (claim(MIDDLE), {"job_ready", PKEY}),
    "claim in turns": (claim_in_turns, {"job_ready", PKEY}),
    "scan lines": (function("scan_lanes_v1", queue="default"), {"job_ready"}),
    "settle as completed": (settle(RUNNING), {PKEY}),
    "settle as retry": (settle(RUNNING, states="scheduled", delays=30.0, errors="{}"), {PKEY}),
    "settle as ready": (settle(RUNNING, states="ready"), {PKEY}),
    "settle with old tokens": (
        function("settle_v1", ids=list(RUNNING), tokens=OLD_TOKENS),
        {PKEY, HISTORY},
    ),
    "settle again": (settle(FINAL), {HISTORY}),
    "enqueue": (enqueue, set()),
    "enqueue unique jobs that are there": (enqueue_unique("skip"), {PKEY}),
    "enqueue unique jobs that still wait": (enqueue_unique("skip", "waiting"), {PKEY}),
    "replace": (enqueue_unique("replace"), {PKEY}),
    "supersede": (enqueue_unique("supersede"), {PKEY, HISTORY}),
    "heartbeat": (function("heartbeat_v1", lease=LIVING, ttl=60.0), set()),
    "progress": (progress, {PKEY}),
    "fence": (function("fence_v1", id=RUNNING[0], token=token(RUNNING[0])), {PKEY}),
    "read steps": (function("read_steps_v1", job=RUNNING[0], token=token(RUNNING[0])), {PKEY}),
    "keep a step": (keep_step, {PKEY}),
    "wait for an event": (wait_for_event, {PKEY}),
    "block": (settle(RUNNING, states="blocked"), {PKEY}),
    "wake": (function("wake_jobs_v1", jobs=list(DUE), notify=True), {PKEY}),
    "promote": (function("promote_v1"), {"job_scheduled", PKEY}),
    "rescue": (function("rescue_v1"), {"job_running", PKEY}),
    "expire": (function("expire_v1"), {"job_deadline", PKEY}),
    "release": (function("release_jobs_v1", lease=OWN), {"job_running", PKEY}),
    "close a lease": (function("close_lease_v1", lease=OWN), {"job_running", PKEY}),
    "cancel": (function("cancel_v1", ids=list(DUE)), {PKEY, HISTORY}),
    "cancel what has ended": (function("cancel_v1", ids=list(FINAL)), {HISTORY}),
    "retry what is scheduled": (
        function("retry_v1", ids=list(LATE)),
        {PKEY, HISTORY, "job_scheduled"},  # the last one if it is short
    ),
    "retry what has ended": (
        function("retry_v1", ids=list(FINAL)),
        {PKEY, HISTORY, "job_scheduled"},
    ),
    "delete": (function("delete_v1", ids=[*DUE, *FINAL]), {PKEY, HISTORY}),
    "overlap": (function("schedule_overlap_v1", schedule="often", overlap="skip"), {PKEY}),
    "sweep": (function("sweep_v1"), {"job_running", PKEY, HISTORY}),
    "unserved": (function("list_unserved_queues_v1", seconds=0.0), {"job_ready"}),
}

# Asked by those who watch: a short table may be read from end to end, a long one never.
WATCHING: dict[str, tuple[Call, set[str]]] = {
    "watch": (watch(*RUNNING, *DUE), {PKEY}),
    "watch what has ended": (watch(*FINAL), {PKEY, HISTORY}),
    "watch owners": (watch_owners, {"job_running", PKEY, HISTORY}),
}
