"""Who keeps vacuum from removing dead rows?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, skipped, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.sql import quote
from penstock.wording import counted, span


class Holder(Struct, frozen=True):
    """A session, a prepared transaction, a replication slot or a standby with an old snapshot.

    `seconds` is how long it has been open, where that is known; `transactions` how many have begun
    since.
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


class Hidden(Struct, frozen=True):
    """How many sessions the role does not see into."""

    hidden: int
    role: str


class Snapshots(Struct, frozen=True):
    holders: tuple[Holder, ...]
    hidden: Hidden


async def read(patient: Patient) -> Snapshots:
    holders = await patient.ask(Holder, "examine_snapshots")
    [hidden] = await patient.ask(Hidden, "examine_hidden_sessions")
    return Snapshots(tuple(holders), hidden)


def judge(snapshots: Snapshots, limits: Limits) -> Sequence[Finding]:
    findings = [_finding(each, limits) for each in snapshots.holders if _is_old(each, limits)]
    if not findings:
        findings = [ok("No transaction is so old that it holds back vacuum.")]
    hidden = snapshots.hidden
    if hidden.hidden:
        findings.append(
            skipped(
                f"The role {hidden.role} does not see into {counted(hidden.hidden, 'session')} of "
                "other roles; one of them may have an old transaction.",
                "Let it see them:",
                f"GRANT pg_read_all_stats TO {quote(hidden.role)};",
            )
        )
    return findings


def _is_old(holder: Holder, limits: Limits) -> bool:
    if holder.seconds is not None:
        return holder.seconds >= limits.snapshot_warning
    return holder.transactions >= limits.snapshot_warning_transactions


def _is_very_old(holder: Holder, limits: Limits) -> bool:
    if holder.seconds is not None:
        return holder.seconds >= limits.snapshot_error
    return holder.transactions >= limits.snapshot_error_transactions


def _finding(holder: Holder, limits: Limits) -> Finding:
    finding = error if _is_very_old(holder, limits) else warning
    return finding(*TELL[holder.kind](holder))


def _session(holder: Holder) -> tuple[str, ...]:
    return (
        f"Process {holder.pid} of {holder.role} ({holder.application or 'no name'}, "
        f"{holder.state}) has had a transaction open for {span(holder.seconds or 0)} and holds "
        f"back vacuum: {holder.query}",
        "Let it end, or end it:",
        f"SELECT pg_terminate_backend({holder.pid});",
    )


def _prepared(holder: Holder) -> tuple[str, ...]:
    return (
        f"The prepared transaction {holder.name} of {holder.role} has waited for "
        f"{span(holder.seconds or 0)} and holds back vacuum.",
        "Commit it or roll it back, as its owner or a superuser:",
        f"ROLLBACK PREPARED {_literal(holder.name or '')};",
    )


def _slot(holder: Holder) -> tuple[str, ...]:
    return (
        f"The replication slot {holder.name} ({holder.state}) holds back vacuum with a snapshot "
        f"from {counted(holder.transactions, 'transaction')} ago.",
        "Bring its standby back, or end its long queries; if it is gone for good, drop it:",
        f"SELECT pg_drop_replication_slot({_literal(holder.name or '')});",
    )


def _standby(holder: Holder) -> tuple[str, ...]:
    return (
        f"The standby {holder.application or holder.name} (process {holder.pid} here) holds back "
        f"vacuum with a snapshot from {counted(holder.transactions, 'transaction')} ago.",
        "End the long queries there, or switch hot_standby_feedback off there:",
        "SELECT pid, usename, now() - xact_start AS open, query FROM pg_stat_activity "
        "WHERE backend_xmin IS NOT NULL ORDER BY xact_start;  -- on the standby",
        "ALTER SYSTEM SET hot_standby_feedback = off;  -- on the standby, then reload",
    )


# What is seen of each kind of holder, what to do, and what to paste.
TELL: dict[str, Callable[[Holder], tuple[str, ...]]] = {
    "session": _session,
    "prepared": _prepared,
    "slot": _slot,
    "standby": _standby,
}


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


SNAPSHOTS = Check(
    "snapshots",
    Group.STORAGE,
    "Does an old transaction, a replication slot or a standby keep vacuum from its work?",
    read,
    judge,
)
