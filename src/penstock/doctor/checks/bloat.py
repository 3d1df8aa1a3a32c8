"""Are the queue's tables and indexes much larger than their rows, or full of dead ones?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.sql import quote
from penstock.wording import counted, size, span

# Those whose rows come and go; history only grows, and is dropped by the partition.
TABLES = ["job", "lease", "leader", "signal", "unique_claim", "progress"]


class Relation(Struct, frozen=True):
    """A table or an index. `expected` is what its live rows should take, where that is known."""

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
    found: tuple[Relation, ...]


async def read(patient: Patient) -> Relations:
    schema = patient.schema
    return Relations(schema, tuple(await patient.ask(Relation, "examine_bloat", schema, TABLES)))


def judge(relations: Relations, limits: Limits) -> Sequence[Finding]:
    findings = [
        finding
        for relation in relations.found
        for finding in _judged(
            relation, f"{quote(relations.schema)}.{quote(relation.name)}", limits
        )
    ]
    if findings:
        return findings
    jobs = next((each for each in relations.found if each.name == "job"), None)
    if jobs is None:
        return [ok("There is no table of jobs yet.")]
    return [
        ok(
            f"The table job takes {size(jobs.bytes)} for {counted(jobs.live, 'row')}, "
            f"{jobs.dead:,} dead; vacuumed {_when(jobs)}."
        )
    ]


def _judged(relation: Relation, name: str, limits: Limits) -> list[Finding]:
    findings = []
    if relation.unattended:
        findings.append(
            error(
                f"Autovacuum is switched off for the table {relation.name}, which only grows.",
                "Switch it on:",
                f"ALTER TABLE {name} RESET (autovacuum_enabled);",
            )
        )
    if _is_full_of_dead(relation, limits):
        findings.append(
            warning(
                f"The table {relation.name} has {counted(relation.dead, 'dead row')} beside "
                f"{relation.live:,} live ones; it was vacuumed {_when(relation)}.",
                "See the check snapshots for who holds them; when nobody does, or no more:",
                f"VACUUM (ANALYZE) {name};",
            )
        )
    if _is_bloated(relation, limits):
        findings.append(_bloated(relation, name))
    return findings


def _is_full_of_dead(relation: Relation, limits: Limits) -> bool:
    return relation.dead >= max(limits.dead_rows, limits.dead_rows_per_live * relation.live)


def _is_bloated(relation: Relation, limits: Limits) -> bool:
    if relation.expected is None or relation.bytes < limits.bloat_bytes:
        return False
    return relation.bytes >= limits.bloat_factor * relation.expected


def _bloated(relation: Relation, name: str) -> Finding:
    seen = (
        f"The {relation.kind} {relation.name} takes {size(relation.bytes)} for "
        f"{counted(relation.live, 'live row')}, which need about {size(relation.expected or 0)}."
    )
    if relation.kind == "index":
        return warning(
            seen, "Build it anew, beside the work:", f"REINDEX INDEX CONCURRENTLY {name};"
        )
    return warning(
        seen,
        "The room is used again as jobs come; to give it back, pause the queues for a moment and "
        "rewrite the table, which locks it meanwhile:",
        f"VACUUM (FULL, ANALYZE) {name};",
    )


def _when(relation: Relation) -> str:
    return "never yet" if relation.vacuumed is None else f"{span(relation.vacuumed)} ago"


BLOAT = Check(
    "bloat",
    Group.STORAGE,
    "Are the queue's tables and indexes full of dead rows, or much larger than their live ones?",
    read,
    judge,
)
