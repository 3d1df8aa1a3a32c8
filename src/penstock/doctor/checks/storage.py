"""Checks of storage: old snapshots, bloat, partitions and the server's lock table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from math import ceil

from msgspec import Struct

from penstock.doctor.check import (
    Check,
    CheckContext,
    CheckGroup,
    CheckLimits,
    Finding,
    error,
    ok,
    skipped,
    warning,
)
from penstock.doctor.checks.database import DatabaseTime
from penstock.sql import quote
from penstock.wording import counted, listed, size, span

# Who keeps vacuum from removing dead rows?


class SnapshotHolder(Struct, frozen=True):
    """A session, a prepared transaction, a replication slot or a standby with an old snapshot.

    `seconds` is how long the snapshot has been open, or None if that is unknown. `transactions`
    is how many transactions have begun since then.
    """

    kind: str
    transactions: int
    seconds: float | None = None
    pid: int | None = None
    name: str | None = None
    role: str | None = None
    application: str | None = None
    state: str | None = None
    query: str | None = None


class HiddenSessions(Struct, frozen=True):
    """How many sessions the role may not inspect."""

    hidden: int
    role: str


class OldSnapshots(Struct, frozen=True):
    holders: tuple[SnapshotHolder, ...]
    hidden: HiddenSessions


async def read_snapshots(context: CheckContext) -> OldSnapshots:
    holders = await context.fetch(SnapshotHolder, "examine_snapshots")
    [hidden] = await context.fetch(HiddenSessions, "examine_hidden_sessions")
    return OldSnapshots(tuple(holders), hidden)


def judge_snapshots(snapshots: OldSnapshots, limits: CheckLimits) -> Sequence[Finding]:
    findings = [
        _snapshot_finding(each, limits) for each in snapshots.holders if _is_old(each, limits)
    ]
    if not findings:
        findings = [ok("No transaction is so old that it holds back vacuum.")]
    hidden = snapshots.hidden
    if hidden.hidden:
        findings.append(
            skipped(
                f"The role {hidden.role} may not inspect {counted(hidden.hidden, 'session')} of "
                "other roles; one of them may have an old transaction.",
                "Let it see them:",
                f"GRANT pg_read_all_stats TO {quote(hidden.role)};",
            )
        )
    return findings


def _is_old(holder: SnapshotHolder, limits: CheckLimits) -> bool:
    if holder.seconds is not None:
        return holder.seconds >= limits.snapshot_warning
    return holder.transactions >= limits.snapshot_warning_transactions


def _is_very_old(holder: SnapshotHolder, limits: CheckLimits) -> bool:
    if holder.seconds is not None:
        return holder.seconds >= limits.snapshot_error
    return holder.transactions >= limits.snapshot_error_transactions


def _snapshot_finding(holder: SnapshotHolder, limits: CheckLimits) -> Finding:
    verdict = error if _is_very_old(holder, limits) else warning
    return verdict(*DESCRIBE[holder.kind](holder))


def _session(holder: SnapshotHolder) -> tuple[str, ...]:
    return (
        f"Process {holder.pid} of {holder.role} ({holder.application or 'no name'}, "
        f"{holder.state}) has had a transaction open for {span(holder.seconds or 0)} and holds "
        f"back vacuum: {holder.query}",
        "Let it end, or end it:",
        f"SELECT pg_terminate_backend({holder.pid});",
    )


def _prepared(holder: SnapshotHolder) -> tuple[str, ...]:
    return (
        f"The prepared transaction {holder.name} of {holder.role} has waited for "
        f"{span(holder.seconds or 0)} and holds back vacuum.",
        "Commit it or roll it back, as its owner or a superuser:",
        f"ROLLBACK PREPARED {_literal(holder.name or '')};",
    )


def _slot(holder: SnapshotHolder) -> tuple[str, ...]:
    return (
        f"The replication slot {holder.name} ({holder.state}) holds back vacuum with a snapshot "
        f"from {counted(holder.transactions, 'transaction')} ago.",
        "Bring its standby back, or end its long queries; if it is gone for good, drop it:",
        f"SELECT pg_drop_replication_slot({_literal(holder.name or '')});",
    )


def _standby(holder: SnapshotHolder) -> tuple[str, ...]:
    return (
        f"The standby {holder.application or holder.name} (process {holder.pid} here) holds back "
        f"vacuum with a snapshot from {counted(holder.transactions, 'transaction')} ago.",
        "End the long queries there, or switch hot_standby_feedback off there:",
        "SELECT pid, usename, now() - xact_start AS open, query FROM pg_stat_activity "
        "WHERE backend_xmin IS NOT NULL ORDER BY xact_start;  -- on the standby",
        "ALTER SYSTEM SET hot_standby_feedback = off;  -- on the standby, then reload",
    )


# By kind of holder: a function that returns what is seen, the remedy, and what to paste.
DESCRIBE: dict[str, Callable[[SnapshotHolder], tuple[str, ...]]] = {
    "session": _session,
    "prepared": _prepared,
    "slot": _slot,
    "standby": _standby,
}


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SNAPSHOTS = Check(
    "snapshots",
    CheckGroup.STORAGE,
    "Does an old transaction, a replication slot or a standby keep vacuum from its work?",
    read_snapshots,
    judge_snapshots,
)


# Are the queue's tables and indexes much larger than their rows, or full of dead ones?


# The tables whose rows come and go. The history only grows, and is dropped by the partition.
TABLES = ["job", "lease", "leader", "signal", "unique_claim", "progress"]


class Relation(Struct, frozen=True):
    """A table or an index. `expected` is how many bytes its live rows need, or None if unknown."""

    kind: str
    name: str
    bytes: int
    live: int
    dead: int = 0
    expected: int | None = None
    vacuumed: float | None = None
    unattended: bool = False


class Relations(Struct, frozen=True):
    schema: str
    relations: tuple[Relation, ...]


async def read_bloat(context: CheckContext) -> Relations:
    schema = context.schema
    return Relations(schema, tuple(await context.fetch(Relation, "examine_bloat", schema, TABLES)))


def judge_bloat(relations: Relations, limits: CheckLimits) -> Sequence[Finding]:
    findings = [
        finding
        for relation in relations.relations
        for finding in _relation_findings(
            relation, f"{quote(relations.schema)}.{quote(relation.name)}", limits
        )
    ]
    if findings:
        return findings
    jobs = next((each for each in relations.relations if each.name == "job"), None)
    if jobs is None:
        return [ok("There is no table of jobs yet.")]
    return [
        ok(
            f"The table job takes {size(jobs.bytes)} for {counted(jobs.live, 'row')}, "
            f"{jobs.dead:,} dead; vacuumed {_vacuum_age(jobs)}."
        )
    ]


def _relation_findings(relation: Relation, name: str, limits: CheckLimits) -> list[Finding]:
    findings = []
    if relation.unattended:
        findings.append(
            error(
                f"Autovacuum is switched off for the table {relation.name}, which only grows.",
                "Switch it on:",
                f"ALTER TABLE {name} RESET (autovacuum_enabled);",
            )
        )
    if _has_many_dead_rows(relation, limits):
        findings.append(
            warning(
                f"The table {relation.name} has {counted(relation.dead, 'dead row')} beside "
                f"{relation.live:,} live ones; it was vacuumed {_vacuum_age(relation)}.",
                "See the check snapshots for who holds them; when nobody does, or no more:",
                f"VACUUM (ANALYZE) {name};",
            )
        )
    if _is_bloated(relation, limits):
        findings.append(_bloat_finding(relation, name))
    return findings


def _has_many_dead_rows(relation: Relation, limits: CheckLimits) -> bool:
    return relation.dead >= max(limits.dead_rows, limits.dead_rows_per_live * relation.live)


def _is_bloated(relation: Relation, limits: CheckLimits) -> bool:
    if relation.expected is None or relation.bytes < limits.bloat_bytes:
        return False
    return relation.bytes >= limits.bloat_factor * relation.expected


def _bloat_finding(relation: Relation, name: str) -> Finding:
    seen = (
        f"The {relation.kind} {relation.name} takes {size(relation.bytes)} for "
        f"{counted(relation.live, 'live row')}, which need about {size(relation.expected or 0)}."
    )
    if relation.kind == "index":
        return warning(
            seen, "Rebuild it, while workers go on:", f"REINDEX INDEX CONCURRENTLY {name};"
        )
    return warning(
        seen,
        "New jobs use the space again; to give it back, pause the queues for a moment and "
        "rewrite the table, which locks it meanwhile:",
        f"VACUUM (FULL, ANALYZE) {name};",
    )


def _vacuum_age(relation: Relation) -> str:
    return "never yet" if relation.vacuumed is None else f"{span(relation.vacuumed)} ago"


BLOAT = Check(
    "bloat",
    CheckGroup.STORAGE,
    "Are the queue's tables and indexes full of dead rows, or much larger than their live ones?",
    read_bloat,
    judge_bloat,
)


# Are there partitions for the jobs that will end in the next days?


DAYS_AHEAD = 7


class MissingPartition(Struct, frozen=True):
    """The first day for which the history has no partition.

    Jobs that end in `ahead` days and are kept for `days` days need this partition. `apart` means
    that a table for the day exists, but is not attached to the history. If it is attached to
    another table, `parent` is that table.
    """

    ahead: int
    days: int
    day: date
    apart: bool
    parent: str | None = None


class PartitionFacts(Struct, frozen=True):
    schema: str
    gap: MissingPartition | None


async def read_partitions(context: CheckContext) -> PartitionFacts:
    gaps = await context.fetch(MissingPartition, "examine_partitions", context.schema, DAYS_AHEAD)
    return PartitionFacts(context.schema, gaps[0] if gaps else None)


def judge_partitions(partitions: PartitionFacts, limits: CheckLimits) -> Sequence[Finding]:
    gap = partitions.gap
    if gap is None or gap.ahead > limits.partitions_warning_days:
        days = DAYS_AHEAD if gap is None else gap.ahead - 1
        return [ok(f"The history has its partitions {counted(days, 'day')} ahead, or more.")]
    verdict = error if gap.ahead <= limits.partitions_error_days else warning
    return [verdict(_describe_gap(gap), *_gap_remedy(partitions.schema, gap))]


def _describe_gap(gap: MissingPartition) -> str:
    kept = f"that are kept for {counted(gap.days, 'day')}"
    if gap.ahead == 0:
        return f"The history has no partition for {gap.day}: jobs {kept} cannot end now."
    when = "tomorrow" if gap.ahead == 1 else f"in {gap.ahead} days"
    return f"The history has no partition for {gap.day}: from {when} on jobs {kept} cannot end."


def _gap_remedy(schema: str, gap: MissingPartition) -> tuple[str, ...]:
    if not gap.apart:
        return (
            "Workers make them every hour, as the owner of the tables: see the checks workers and "
            "rights. By hand:",
            f"SELECT {quote(schema)}.ensure_partitions_v1();",
        )
    table = f"{quote(schema)}.{quote(f'job_history_{gap.day:%Y%m%d}')}"
    attach = (
        f"ALTER TABLE {quote(schema)}.job_history ATTACH PARTITION {table} "
        f"FOR VALUES FROM ('{gap.day}') TO ('{gap.day + timedelta(days=1)}');"
    )
    if gap.parent is None:
        return "There is a table for it that is not attached. Attach it:", attach
    return (
        f"There is a table for it, but it is a partition of {gap.parent}. Move it back:",
        f"ALTER TABLE {gap.parent} DETACH PARTITION {table};",
        attach,
    )


PARTITIONS = Check(
    "partitions",
    CheckGroup.STORAGE,
    "Has the history its partitions for the next days?",
    read_partitions,
    judge_partitions,
)


# Are partitions dropped once their day has passed?


class ExpiredPartition(Struct, frozen=True):
    """A partition whose day has passed, and the statements that remove it."""

    name: str
    attached: bool
    pending: bool
    detach: str
    finalize: str
    drop: str

    @property
    def steps(self) -> list[str]:
        first = [self.finalize] if self.pending else [self.detach] if self.attached else []
        return [f"{step};" for step in (*first, self.drop)]


async def read_expired(context: CheckContext) -> list[ExpiredPartition]:
    """Return the partitions that should have been dropped `expired_days` ago or earlier.

    The leader drops expired partitions every hour.
    """
    [database_time] = await context.fetch(DatabaseTime, "get_time")
    since = database_time.now - timedelta(days=context.limits.expired_days)
    return await context.fetch(ExpiredPartition, "list_expired_partitions", context.schema, since)


def judge_expired(expired: Sequence[ExpiredPartition], limits: CheckLimits) -> Sequence[Finding]:
    if not expired:
        return [ok("No partition of the history is kept beyond its day.")]
    return [
        warning(
            f"{counted(len(expired), 'partition')} of the history should have been dropped "
            f"{limits.expired_days} days ago or earlier: "
            f"{listed(each.name for each in expired)}.",
            "The leader drops them, as the owner of the tables, unless a reader holds them: see "
            "the checks leader, rights and snapshots. By hand, each line on its own:",
            *(step for each in expired for step in each.steps),
        )
    ]


EXPIRED = Check(
    "expired-partitions",
    CheckGroup.STORAGE,
    "Are partitions dropped once their day has passed?",
    read_expired,
    judge_expired,
)


# Does the server's lock table have room for queries of the whole history?


class LockTable(Struct, frozen=True):
    """The server's lock table, and the locks that one query of the whole history takes.

    The table has room for `max_locks` times `transactions` locks.
    """

    partitions: int
    locks: int
    max_locks: int
    transactions: int

    @property
    def readers(self) -> int:
        """How many connections can query the whole history at once."""
        return self.max_locks * self.transactions // self.locks


async def read_locks(context: CheckContext) -> LockTable:
    [lock_table] = await context.fetch(LockTable, "examine_locks", context.schema)
    return lock_table


def judge_locks(lock_table: LockTable, limits: CheckLimits) -> Sequence[Finding]:
    history = f"{counted(lock_table.partitions, 'partition')} of the history"
    needed = min(limits.history_readers, lock_table.transactions)
    if lock_table.readers >= needed:
        return [ok(f"{lock_table.readers} connections can read all {history} at once.")]
    suggested = max(64, ceil(needed * lock_table.locks / lock_table.transactions / 64) * 64)
    return [
        warning(
            f"A list of jobs locks all {history} with their indexes, {lock_table.locks} locks. The "
            f"server has room for {counted(lock_table.readers, 'such list')} at once; with more, "
            "statements of every application fail with 'out of shared memory'.",
            "Keep jobs for a shorter time (see `penstock retention list`), let the leader drop "
            "partitions whose day has passed, or give the server more room and restart it:",
            f"ALTER SYSTEM SET max_locks_per_transaction = {suggested};",
        )
    ]


LOCKS = Check(
    "locks",
    CheckGroup.STORAGE,
    "Is there room in the lock table for those who read the whole history?",
    read_locks,
    judge_locks,
)
