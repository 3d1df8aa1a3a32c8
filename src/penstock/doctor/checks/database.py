"""Checks of the database: connection, pooler, rights, schema, clock and server settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct

from penstock import sql
from penstock.doctor.check import (
    Check,
    Finding,
    Group,
    Limits,
    Patient,
    Verdict,
    error,
    ok,
    warning,
)
from penstock.errors import SchemaError
from penstock.migrate import check as check_version
from penstock.migrate import rls
from penstock.migrate.rights import (
    MissingRight,
    find_missing_rights,
    grant_statements,
    worker_functions,
)
from penstock.migrate.runner import newest_functions
from penstock.sql import quote, roles
from penstock.sql.rights import CLIENT_TABLES, WORKER_TABLES
from penstock.store import Connection, connect
from penstock.store.connection import is_behind_pooler, is_transaction_pooled
from penstock.wording import listed, span

# Can the database be reached, is it one that Penstock runs on, and how far away is it?


CONNECTION_TRIES = 5


class Server(Struct, frozen=True):
    version: str
    major: int
    standby: bool
    database: str
    role: str


class Reached(Struct, frozen=True):
    server: Server
    latency: float


async def read_connection(patient: Patient) -> Reached:
    [server] = await patient.ask(Server, "examine_server")
    async with patient.bounds() as connection:
        return Reached(
            server, median([await _round_trip(connection) for _ in range(CONNECTION_TRIES)])
        )


async def _round_trip(connection: Connection) -> float:
    began = time.monotonic()
    # One way there and one back, which a statement with parameters would not be.
    await connection.execute("SELECT")
    return time.monotonic() - began


def judge_connection(reached: Reached, limits: Limits) -> Sequence[Finding]:
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
    read_connection,
    judge_connection,
)


# Does a pooler stand between us and Postgres, and in which mode?


class Way(Struct, frozen=True):
    """How a connection of ours gets to Postgres."""

    pooled: bool
    shared: bool = False


async def read_pooler(patient: Patient) -> Way:
    async with patient.bounds() as connection:
        pooled = await is_behind_pooler(connection)
    return Way(pooled, shared=pooled and await _is_shared(patient))


async def _is_shared(patient: Patient) -> bool:
    other = await connect(patient.url, name="penstock doctor")
    try:
        async with asyncio.timeout(patient.limits.reading):
            return await is_transaction_pooled(patient.connection, other)
    finally:
        await other.close(timeout=1)


def judge_pooler(way: Way, _: Limits) -> Sequence[Finding]:
    if not way.pooled:
        return [ok("Nothing stands between here and Postgres.")]
    if not way.shared:
        return [ok("A pooler stands between; each connection seems to have a backend of its own.")]
    return [
        ok(
            "A pooler in transaction mode stands between.",
            "Everything works through it; only notifications do not pass. The check notifications "
            "says whether workers hear them by another way.",
        )
    ]


POOLER = Check(
    "pooler",
    Group.DATABASE,
    "Does a pooler such as PgBouncer stand between, and in which mode?",
    read_pooler,
    judge_pooler,
)


# May the role do what a client and a worker must?


class Owner(Struct, frozen=True):
    """Who owns the history, and whether the role may act as that one."""

    owner: str
    role: str
    ours: bool
    creates: bool


class Rights(Struct, frozen=True):
    schema: str
    lacks: tuple[MissingRight, ...]
    owner: Owner | None
    is_secured: bool = False
    """Whether row level security is on, and has roles of its own."""


async def read_rights(patient: Patient) -> Rights:
    async with patient.bounds() as connection:
        lacks = await find_missing_rights(
            connection,
            patient.schema,
            tables=(CLIENT_TABLES, WORKER_TABLES),
            functions=newest_functions(),
        )
    owners = await patient.ask(Owner, "examine_owner", patient.schema)
    async with patient.bounds() as connection:
        is_secured = await rls.is_on(connection, patient.schema)
    return Rights(patient.schema, lacks, owners[0] if owners else None, is_secured)


def judge_rights(rights: Rights, _: Limits) -> Sequence[Finding]:
    owner = rights.owner
    if owner is None:
        return [ok("There is nothing to have rights to yet.")]
    if rights.is_secured and not owner.ours:
        return [_secured(rights, owner)]
    if rights.lacks:
        return [_lacking(rights, owner)]
    if not (owner.ours and owner.creates):
        return [
            warning(
                f"The role {owner.role} may work off jobs, but neither make nor drop partitions of "
                f"the history: they belong to {owner.owner}.",
                "Run at least one worker as the owner, or let this role act as the owner:",
                f"GRANT {quote(owner.owner)} TO {quote(owner.role)};",
            )
        ]
    return [ok(f"The role {owner.role} may do all that clients and workers do.")]


def _secured(rights: Rights, owner: Owner) -> Finding:
    called, _ = worker_functions()
    lacks = [each for each in rights.lacks if each.function in called]
    worker, app = roles(rights.schema)
    if not lacks:
        return ok(f"Row level security is on, and the role {owner.role} may do what workers do.")
    if len({each.function for each in lacks}) < len(called):
        names = listed(sorted({each.name for each in lacks}))
        return error(
            f"Row level security is on, and the role {owner.role} lacks rights to {names}, so that "
            "no worker starts with it.",
            f"Grant them, as {owner.owner}:",
            *grant_statements(lacks, rights.schema, owner.role),
        )
    if not any((each.name, each.privilege) == ("job", "INSERT") for each in rights.lacks):
        return ok(f"Row level security is on, and the role {owner.role} may do what an app does.")
    return error(
        f"Row level security is on, and the role {owner.role} may do nothing.",
        f"Make it a worker's, or an app's; as {owner.owner}:",
        f"GRANT {quote(worker)} TO {quote(owner.role)};",
        f"GRANT {quote(app)} TO {quote(owner.role)};",
    )


def _lacking(rights: Rights, owner: Owner) -> Finding:
    names = listed(sorted({each.name for each in rights.lacks}))
    return error(
        f"The role {owner.role} lacks rights to {names}, so it {_consequence(rights.lacks)}.",
        f"Grant them, as {owner.owner}:",
        *grant_statements(rights.lacks, rights.schema, owner.role),
    )


def _consequence(lacks: Sequence[MissingRight]) -> str:
    for_workers_alone = all(
        each.kind == "table" and each.privilege not in CLIENT_TABLES.get(each.name, "").split()
        for each in lacks
    )
    return "can enqueue but not work" if for_workers_alone else "can neither enqueue nor work fully"


RIGHTS = Check(
    "rights",
    Group.DATABASE,
    "May the role do what a client and a worker must?",
    read_rights,
    judge_rights,
)


# Are the tables there, of the right version, and nothing missing or altered by hand?


class Part(Struct, frozen=True):
    """A function or an index that is not as it was made."""

    name: str
    missing: bool


class Schema(Struct, frozen=True):
    name: str
    problem: str | None = None
    functions: tuple[Part, ...] = ()
    indexes: tuple[Part, ...] = ()


async def read_schema(patient: Patient) -> Schema:
    name = patient.schema
    try:
        async with patient.bounds() as connection:
            await check_version(connection, name)
    except SchemaError as problem:
        return Schema(name, str(problem))
    functions = newest_functions()
    bodies = [sql.function_body(each, name) for each in functions]
    return Schema(
        name,
        None,
        tuple(await patient.ask(Part, "examine_functions", name, functions, bodies)),
        tuple(await patient.ask(Part, "examine_indexes", name, list(sql.indexes(name)))),
    )


def judge_schema(schema: Schema, _: Limits) -> Sequence[Finding]:
    if schema.problem is not None:
        return [error(schema.problem, "Bring the tables up to date:", "penstock migrate")]
    findings = [
        *_function_findings(schema),
        *(_index_finding(schema.name, each) for each in schema.indexes),
    ]
    return findings or [ok(f"The schema {schema.name} is complete and up to date.")]


def _function_findings(schema: Schema) -> list[Finding]:
    missing = [each.name for each in schema.functions if each.missing]
    altered = [each.name for each in schema.functions if not each.missing]
    findings = []
    if missing:
        findings.append(
            error(
                f"Functions are missing: {listed(missing)}.",
                "Somebody has dropped them. Make them again:",
                *(sql.function(name, schema.name) for name in missing),
            )
        )
    if altered:
        findings.append(
            warning(
                f"Functions are not as Penstock made them: {listed(altered)}.",
                "Somebody has altered them. Put them back, unless that was meant:",
                *(_replacing(sql.function(name, schema.name)) for name in altered),
            )
        )
    return findings


def _replacing(definition: str) -> str:
    return definition.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)


def _index_finding(schema: str, index: Part) -> Finding:
    if index.missing:
        return error(
            f"The index {index.name} is missing.",
            "Without it whole tables are read, ever more slowly as they grow. Make it again:",
            _concurrently(sql.indexes(schema)[index.name]),
        )
    return error(
        f"The index {index.name} is invalid: it was only half built.",
        "Build it anew:",
        f"REINDEX INDEX CONCURRENTLY {sql.quote(schema)}.{sql.quote(index.name)};",
    )


def _concurrently(definition: str) -> str:
    # Of a partitioned table that is not possible.
    if ".job_history " in definition:
        return definition
    return definition.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)


SCHEMA = Check(
    "schema",
    Group.DATABASE,
    "Are the tables and functions there, complete, and of the version that this one needs?",
    read_schema,
    judge_schema,
)


# Does this machine's clock agree with the database's?


CLOCK_TRIES = 3


class Reading(Struct, frozen=True):
    """The database's clock, read between two looks at ours."""

    sent: datetime
    theirs: datetime
    received: datetime

    @property
    def doubt(self) -> timedelta:
        """It was read at some moment in between."""
        return (self.received - self.sent) / 2

    @property
    def ahead(self) -> timedelta:
        """How far the database's clock is ahead of ours."""
        return self.theirs - (self.sent + self.doubt)


class Told(Struct, frozen=True):
    now: datetime


async def read_clock(patient: Patient) -> Reading:
    """The quickest of several readings is the surest."""
    readings = []
    for _ in range(CLOCK_TRIES):
        sent = patient.clock()
        [told] = await patient.ask(Told, "get_time")
        readings.append(Reading(sent, told.now, patient.clock()))
    return min(readings, key=lambda reading: reading.doubt)


def judge_clock(reading: Reading, limits: Limits) -> Sequence[Finding]:
    apart = abs(reading.ahead.total_seconds())
    sure = apart - reading.doubt.total_seconds()
    if sure <= limits.clock_warning:
        return [ok(f"This machine's clock and the database's agree within {span(apart)}.")]
    which = "behind" if reading.ahead > timedelta() else "ahead of"
    finding = error if sure > limits.clock_error else warning
    return [
        finding(
            f"This machine's clock is {span(apart)} {which} the database's.",
            "The queue goes by the database's time alone; but times that programs here compute "
            "(run_at, deadline) and write to logs are off. Let both machines keep time by NTP:",
            "timedatectl set-ntp true",
        )
    ]


CLOCK = Check(
    "clock",
    Group.DATABASE,
    "Does this machine's clock agree with the database's?",
    read_clock,
    judge_clock,
)


# Are there settings of the server or the role that hurt?


class Setting(Struct, frozen=True):
    """What a new connection of the role gets."""

    name: str
    value: str
    role: str


@dataclass(frozen=True, slots=True)
class Rule:
    """When a value is bad, what comes of it, and which one is good."""

    name: str
    is_bad: Callable[[str], bool]
    verdict: Verdict
    consequence: str
    good: str
    of_server: bool = False

    def finding(self, setting: Setting) -> Finding:
        return Finding(
            self.verdict,
            f"The setting {self.name} is {setting.value}: {self.consequence}.",
            "Change it for the server:" if self.of_server else "Change it for the role:",
            self._change(setting.role),
        )

    def _change(self, role: str) -> tuple[str, ...]:
        if self.of_server:
            return f"ALTER SYSTEM SET {self.name} = {self.good};", "SELECT pg_reload_conf();"
        return (f"ALTER ROLE {quote(role)} SET {self.name} = {self.good};",)


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _under(milliseconds: int) -> Callable[[str], bool]:
    """A limit that is set (0 means none) and that is shorter."""
    return lambda value: 0 < int(value) < milliseconds


_OFF = _is("off")
_ERROR, _WARNING = Verdict.ERROR, Verdict.WARNING

RULES = (
    Rule("autovacuum", _OFF, _ERROR, "dead rows are never removed", "on", of_server=True),
    Rule(
        "track_counts", _OFF, _ERROR, "autovacuum does not know where to go", "on", of_server=True
    ),
    Rule(
        "fsync", _OFF, _ERROR, "a crash of the machine can destroy the database", "on",
        of_server=True,
    ),
    Rule(
        "full_page_writes", _OFF, _ERROR, "a crash of the machine can destroy the database", "on",
        of_server=True,
    ),
    Rule(
        "synchronous_commit", _OFF, _WARNING,
        "a crash of the server can lose jobs that were enqueued inside your own transactions", "on",
    ),
    Rule(
        "default_transaction_read_only", _is("on"), _ERROR, "no job can be enqueued or run", "off"
    ),
    Rule(
        "default_transaction_isolation", _is("serializable", "repeatable read"), _WARNING,
        "claims and settles that meet fail and must be tried again", "'read committed'",
    ),
    Rule(
        "statement_timeout", _under(5000), _WARNING,
        "large claims and settles on a busy server are given up", "'60s'",
    ),
    Rule(
        "lock_timeout", _under(500), _WARNING,
        "an enqueue with a key that another transaction holds is given up", "'10s'",
    ),
    Rule(
        "idle_in_transaction_session_timeout", _under(10_000), _WARNING,
        "handlers lose their transactions while they wait for something else", "'5min'",
    ),
    Rule(
        "idle_session_timeout", _under(120_000), _WARNING,
        "workers lose the connections on which they listen", "0",
    ),
    Rule(
        "transaction_timeout", _under(60_000), _WARNING,
        "handlers lose transactions that take a while", "0",
    ),
)  # fmt: skip


async def read_settings(patient: Patient) -> list[Setting]:
    # An older server does not have them all.
    return await patient.ask(Setting, "examine_settings", [rule.name for rule in RULES])


def judge_settings(settings: Sequence[Setting], _: Limits) -> Sequence[Finding]:
    found = {setting.name: setting for setting in settings}
    findings = [
        rule.finding(found[rule.name])
        for rule in RULES
        if rule.name in found and rule.is_bad(found[rule.name].value)
    ]
    return findings or [ok("No setting of the server or the role hurts the queue.")]


SETTINGS = Check(
    "settings",
    Group.DATABASE,
    "Are there settings of the server or the role that hurt?",
    read_settings,
    judge_settings,
)


# Are there connections left?


class Usage(Struct, frozen=True):
    """Connections in use, and the most there may be: of the server, the database or the role."""

    whose: str
    name: str
    used: int
    most: int

    @property
    def limited(self) -> str:
        return f"{self.whose} {self.name}".strip()

    @property
    def share(self) -> float:
        return self.used / self.most if self.most else 1.0


async def read_connections(patient: Patient) -> list[Usage]:
    return await patient.ask(Usage, "examine_connections")


def judge_connections(usages: Sequence[Usage], limits: Limits) -> Sequence[Finding]:
    tight = [each for each in usages if each.share >= limits.connections_warning_share]
    if tight:
        return [_finding(each, limits) for each in tight]
    nearest = max(usages, key=lambda usage: usage.share)
    return [ok(f"{nearest.used} of {nearest.most} connections of the {nearest.whose} are in use.")]


def _finding(usage: Usage, limits: Limits) -> Finding:
    finding = error if usage.share >= limits.connections_error_share else warning
    return finding(
        f"{usage.used} of {usage.most} connections of the {usage.limited} are in use; "
        "who comes too late is turned away.",
        "End what is idle, put a pooler between, or raise the limit:",
        "SELECT usename, application_name, state, count(*) FROM pg_stat_activity "
        "GROUP BY 1, 2, 3 ORDER BY 4 DESC;",
        _higher(usage),
    )


def _higher(usage: Usage) -> str:
    match usage.whose:
        case "database":
            return f"ALTER DATABASE {quote(usage.name)} CONNECTION LIMIT {usage.most * 2};"
        case "role":
            return f"ALTER ROLE {quote(usage.name)} CONNECTION LIMIT {usage.most * 2};"
    return f"ALTER SYSTEM SET max_connections = {usage.most * 2};  -- then restart the server"


CONNECTIONS = Check(
    "connections",
    Group.DATABASE,
    "Are there connections left?",
    read_connections,
    judge_connections,
)
