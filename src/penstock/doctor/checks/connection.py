"""Can the database be reached, is it one that Penstock runs on, and how far away is it?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.store import Connection
from penstock.wording import span

TRIES = 5


class Server(Struct, frozen=True):
    version: str
    major: int
    standby: bool
    database: str
    role: str


class Reached(Struct, frozen=True):
    server: Server
    latency: float


async def read(patient: Patient) -> Reached:
    [server] = await patient.ask(Server, "examine_server")
    async with patient.bounds() as connection:
        return Reached(server, median([await _round_trip(connection) for _ in range(TRIES)]))


async def _round_trip(connection: Connection) -> float:
    began = time.monotonic()
    # One way there and one back, which a statement with parameters would not be.
    await connection.execute("SELECT")
    return time.monotonic() - began


def judge(reached: Reached, limits: Limits) -> Sequence[Finding]:
    server = reached.server
    if server.major < limits.oldest_postgres:
        return [
            error(
                f"This is PostgreSQL {server.version}.",
                f"Penstock needs PostgreSQL {limits.oldest_postgres} or newer: upgrade the server.",
            )
        ]
    if server.standby:
        return [
            error(
                f"The database {server.database} is a standby, which takes no writes.",
                "Use the address of the primary, or name both and add "
                "target_session_attrs=read-write. If this should be the primary, promote it:",
                "SELECT pg_promote();",
            )
        ]
    seen = (
        f"PostgreSQL {server.version} answers in {_short(reached.latency)}; role {server.role}, "
        f"database {server.database}."
    )
    if reached.latency > limits.latency_warning:
        return [
            warning(
                seen,
                "Every claim and every settle waits this long. Run workers near the database, "
                "and look for what makes the network or the server slow.",
            )
        ]
    return [ok(seen)]


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.01 else span(seconds)


CONNECTION = Check(
    "connection",
    Group.DATABASE,
    "Can the database be reached, does it take writes, and how far away is it?",
    read,
    judge,
)
