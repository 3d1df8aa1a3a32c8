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
    CheckContext,
    CheckGroup,
    CheckLimits,
    Finding,
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


ROUND_TRIPS_MEASURED = 5


class ServerFacts(Struct, frozen=True):
    version: str
    major: int
    standby: bool
    database: str
    role: str


class Reached(Struct, frozen=True):
    server: ServerFacts
    latency: float


async def read_connection(context: CheckContext) -> Reached:
    [server] = await context.fetch(ServerFacts, "examine_server")
    async with context.transaction() as connection:
        return Reached(
            server, median([await _round_trip(connection) for _ in range(ROUND_TRIPS_MEASURED)])
        )


async def _round_trip(connection: Connection) -> float:
    began = time.monotonic()
    # A statement with parameters would take more than one round trip.
    await connection.execute("SELECT")
    return time.monotonic() - began


def judge_connection(reached: Reached, limits: CheckLimits) -> Sequence[Finding]:
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
    CheckGroup.DATABASE,
    "Can the database be reached, does it take writes, and how far away is it?",
    read_connection,
    judge_connection,
)


# Does a pooler stand between us and Postgres, and in which mode?


class Pooling(Struct, frozen=True):
    """Whether there is a pooler in front of Postgres, and whether it shares connections."""

    pooled: bool
    shared: bool = False


async def read_pooler(context: CheckContext) -> Pooling:
    async with context.transaction() as connection:
        pooled = await is_behind_pooler(connection)
    return Pooling(pooled, shared=pooled and await _is_shared(context))


async def _is_shared(context: CheckContext) -> bool:
    other = await connect(context.url, name="penstock doctor")
    try:
        async with asyncio.timeout(context.limits.reading):
            return await is_transaction_pooled(context.connection, other)
    finally:
        await other.close(timeout=1)


def judge_pooler(pooling: Pooling, _: CheckLimits) -> Sequence[Finding]:
    if not pooling.pooled:
        return [ok("No pooler is between here and Postgres.")]
    if not pooling.shared:
        return [ok("There is a pooler, but each connection seems to have a backend of its own.")]
    return [
        ok(
            "There is a pooler in transaction mode.",
            "Everything works through it except notifications. The check notifications "
            "says whether workers hear them by another way.",
        )
    ]


POOLER = Check(
    "pooler",
    CheckGroup.DATABASE,
    "Does a pooler such as PgBouncer stand between, and in which mode?",
    read_pooler,
    judge_pooler,
)


# May the role do what a client and a worker must?


class Owner(Struct, frozen=True):
    """The owner of the history, and whether the role may act as the owner."""

    owner: str
    role: str
    ours: bool
    creates: bool


class Rights(Struct, frozen=True):
    schema: str
    missing: tuple[MissingRight, ...]
    owner: Owner | None
    is_secured: bool = False
    """Whether row level security is on, which has roles of its own."""


async def read_rights(context: CheckContext) -> Rights:
    async with context.transaction() as connection:
        missing = await find_missing_rights(
            connection,
            context.schema,
            tables=(CLIENT_TABLES, WORKER_TABLES),
            functions=newest_functions(),
        )
    owners = await context.fetch(Owner, "examine_owner", context.schema)
    async with context.transaction() as connection:
        is_secured = await rls.is_on(connection, context.schema)
    return Rights(context.schema, missing, owners[0] if owners else None, is_secured)


def judge_rights(rights: Rights, _: CheckLimits) -> Sequence[Finding]:
    owner = rights.owner
    if owner is None:
        return [ok("There are no tables yet, so no rights are needed.")]
    if rights.is_secured and not owner.ours:
        return [_row_security_finding(rights, owner)]
    if rights.missing:
        return [_missing_rights_finding(rights, owner)]
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


def _row_security_finding(rights: Rights, owner: Owner) -> Finding:
    called, _ = worker_functions()
    missing = [each for each in rights.missing if each.function in called]
    worker, app = roles(rights.schema)
    if not missing:
        return ok(f"Row level security is on, and the role {owner.role} may do what workers do.")
    if len({each.function for each in missing}) < len(called):
        names = listed(sorted({each.name for each in missing}))
        return error(
            f"Row level security is on, and the role {owner.role} lacks rights to {names}, so that "
            "no worker starts with it.",
            f"Grant them, as {owner.owner}:",
            *grant_statements(missing, rights.schema, owner.role),
        )
    if not any((each.name, each.privilege) == ("job", "INSERT") for each in rights.missing):
        return ok(f"Row level security is on, and the role {owner.role} may do what an app does.")
    return error(
        f"Row level security is on, and the role {owner.role} may do nothing.",
        f"Make it a worker's, or an app's; as {owner.owner}:",
        f"GRANT {quote(worker)} TO {quote(owner.role)};",
        f"GRANT {quote(app)} TO {quote(owner.role)};",
    )


def _missing_rights_finding(rights: Rights, owner: Owner) -> Finding:
    names = listed(sorted({each.name for each in rights.missing}))
    return error(
        f"The role {owner.role} lacks rights to {names}, so it {_consequence(rights.missing)}.",
        f"Grant them, as {owner.owner}:",
        *grant_statements(rights.missing, rights.schema, owner.role),
    )


def _consequence(missing: Sequence[MissingRight]) -> str:
    for_workers_alone = all(
        each.kind == "table" and each.privilege not in CLIENT_TABLES.get(each.name, "").split()
        for each in missing
    )
    return "can enqueue but not work" if for_workers_alone else "can neither enqueue nor work fully"


RIGHTS = Check(
    "rights",
    CheckGroup.DATABASE,
    "May the role do what a client and a worker must?",
    read_rights,
    judge_rights,
)


# Are the tables there, of the right version, and nothing missing or altered by hand?


class ChangedPart(Struct, frozen=True):
    """A function or an index that is missing or was changed."""

    name: str
    missing: bool


class Schema(Struct, frozen=True):
    name: str
    problem: str | None = None
    functions: tuple[ChangedPart, ...] = ()
    indexes: tuple[ChangedPart, ...] = ()


async def read_schema(context: CheckContext) -> Schema:
    name = context.schema
    try:
        async with context.transaction() as connection:
            await check_version(connection, name)
    except SchemaError as problem:
        return Schema(name, str(problem))
    functions = newest_functions()
    bodies = [sql.function_body(each, name) for each in functions]
    return Schema(
        name,
        None,
        tuple(await context.fetch(ChangedPart, "examine_functions", name, functions, bodies)),
        tuple(await context.fetch(ChangedPart, "examine_indexes", name, list(sql.indexes(name)))),
    )


def judge_schema(schema: Schema, _: CheckLimits) -> Sequence[Finding]:
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
                *(_or_replace(sql.function(name, schema.name)) for name in altered),
            )
        )
    return findings


def _or_replace(definition: str) -> str:
    return definition.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)


def _index_finding(schema: str, index: ChangedPart) -> Finding:
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
    # Postgres cannot do that for a partitioned table.
    if ".job_history " in definition:
        return definition
    return definition.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)


SCHEMA = Check(
    "schema",
    CheckGroup.DATABASE,
    "Are the tables and functions there, complete, and of the version that this one needs?",
    read_schema,
    judge_schema,
)


# Does this machine's clock agree with the database's?


CLOCK_READINGS = 3


class ClockReading(Struct, frozen=True):
    """The time of the database, with this machine's time before and after the query."""

    sent: datetime
    theirs: datetime
    received: datetime

    @property
    def doubt(self) -> timedelta:
        """How far `ahead` may be off: the database read its clock between `sent` and `received`."""
        return (self.received - self.sent) / 2

    @property
    def ahead(self) -> timedelta:
        """How far the database's clock is ahead of this machine's."""
        return self.theirs - (self.sent + self.doubt)


class DatabaseTime(Struct, frozen=True):
    now: datetime


async def read_clock(context: CheckContext) -> ClockReading:
    """Return the quickest of several readings, since it is the most exact."""
    readings = []
    for _ in range(CLOCK_READINGS):
        sent = context.clock()
        [database_time] = await context.fetch(DatabaseTime, "get_time")
        readings.append(ClockReading(sent, database_time.now, context.clock()))
    return min(readings, key=lambda reading: reading.doubt)


def judge_clock(reading: ClockReading, limits: CheckLimits) -> Sequence[Finding]:
    apart = abs(reading.ahead.total_seconds())
    certainly_apart = apart - reading.doubt.total_seconds()
    if certainly_apart <= limits.clock_warning:
        return [ok(f"This machine's clock and the database's agree within {span(apart)}.")]
    relation = "behind" if reading.ahead > timedelta() else "ahead of"
    finding = error if certainly_apart > limits.clock_error else warning
    return [
        finding(
            f"This machine's clock is {span(apart)} {relation} the database's.",
            "The queue goes by the database's time alone; but times that programs here compute "
            "(run_at, deadline) and write to logs are off. Let both machines keep time by NTP:",
            "timedatectl set-ntp true",
        )
    ]


CLOCK = Check(
    "clock",
    CheckGroup.DATABASE,
    "Does this machine's clock agree with the database's?",
    read_clock,
    judge_clock,
)


# Are there settings of the server or the role that hurt?


class Setting(Struct, frozen=True):
    """The value of a setting in a new connection of the role."""

    name: str
    value: str
    role: str


@dataclass(frozen=True, slots=True)
class SettingRule:
    """Which values of a setting are bad, what they cause, and which value is good."""

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
    """Return a test for a timeout that is set (not 0) and shorter than this."""
    return lambda value: 0 < int(value) < milliseconds


_OFF = _is("off")
_ERROR, _WARNING = Verdict.ERROR, Verdict.WARNING

RULES = (
    SettingRule("autovacuum", _OFF, _ERROR, "dead rows are never removed", "on", of_server=True),
    SettingRule(
        "track_counts", _OFF, _ERROR, "autovacuum does not know which tables need it", "on",
        of_server=True,
    ),
    SettingRule(
        "fsync", _OFF, _ERROR, "a crash of the machine can destroy the database", "on",
        of_server=True,
    ),
    SettingRule(
        "full_page_writes", _OFF, _ERROR, "a crash of the machine can destroy the database", "on",
        of_server=True,
    ),
    SettingRule(
        "synchronous_commit", _OFF, _WARNING,
        "a crash of the server can lose jobs that were enqueued inside your own transactions", "on",
    ),
    SettingRule(
        "default_transaction_read_only", _is("on"), _ERROR, "no job can be enqueued or run", "off"
    ),
    SettingRule(
        "default_transaction_isolation", _is("serializable", "repeatable read"), _WARNING,
        "claims and settles that meet fail and must be tried again", "'read committed'",
    ),
    SettingRule(
        "statement_timeout", _under(5000), _WARNING,
        "large claims and settles on a busy server are given up", "'60s'",
    ),
    SettingRule(
        "lock_timeout", _under(500), _WARNING,
        "an enqueue with a key that another transaction holds is given up", "'10s'",
    ),
    SettingRule(
        "idle_in_transaction_session_timeout", _under(10_000), _WARNING,
        "handlers lose their transactions while they wait for something else", "'5min'",
    ),
    SettingRule(
        "idle_session_timeout", _under(120_000), _WARNING,
        "workers lose the connections on which they listen", "0",
    ),
    SettingRule(
        "transaction_timeout", _under(60_000), _WARNING,
        "handlers lose transactions that take a while", "0",
    ),
)  # fmt: skip


async def read_settings(context: CheckContext) -> list[Setting]:
    # Older servers lack some of them, and return no row for these.
    return await context.fetch(Setting, "examine_settings", [rule.name for rule in RULES])


def judge_settings(settings: Sequence[Setting], _: CheckLimits) -> Sequence[Finding]:
    by_name = {setting.name: setting for setting in settings}
    findings = [
        rule.finding(by_name[rule.name])
        for rule in RULES
        if rule.name in by_name and rule.is_bad(by_name[rule.name].value)
    ]
    return findings or [ok("No setting of the server or the role hurts the queue.")]


SETTINGS = Check(
    "settings",
    CheckGroup.DATABASE,
    "Are there settings of the server or the role that hurt?",
    read_settings,
    judge_settings,
)


# Are there connections left?


class Usage(Struct, frozen=True):
    """How many connections the server, a database or a role has, and how many it may have."""

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


async def read_connections(context: CheckContext) -> list[Usage]:
    return await context.fetch(Usage, "examine_connections")


def judge_connections(usages: Sequence[Usage], limits: CheckLimits) -> Sequence[Finding]:
    nearly_full = [each for each in usages if each.share >= limits.connections_warning_share]
    if nearly_full:
        return [_usage_finding(each, limits) for each in nearly_full]
    fullest = max(usages, key=lambda usage: usage.share)
    return [ok(f"{fullest.used} of {fullest.most} connections of the {fullest.whose} are in use.")]


def _usage_finding(usage: Usage, limits: CheckLimits) -> Finding:
    finding = error if usage.share >= limits.connections_error_share else warning
    return finding(
        f"{usage.used} of {usage.most} connections of the {usage.limited} are in use; "
        "the server refuses those beyond.",
        "End what is idle, put a pooler between, or raise the limit:",
        "SELECT usename, application_name, state, count(*) FROM pg_stat_activity "
        "GROUP BY 1, 2, 3 ORDER BY 4 DESC;",
        _raise_limit(usage),
    )


def _raise_limit(usage: Usage) -> str:
    match usage.whose:
        case "database":
            return f"ALTER DATABASE {quote(usage.name)} CONNECTION LIMIT {usage.most * 2};"
        case "role":
            return f"ALTER ROLE {quote(usage.name)} CONNECTION LIMIT {usage.most * 2};"
    return f"ALTER SYSTEM SET max_connections = {usage.most * 2};  -- then restart the server"


CONNECTIONS = Check(
    "connections",
    CheckGroup.DATABASE,
    "Are there connections left?",
    read_connections,
    judge_connections,
)
