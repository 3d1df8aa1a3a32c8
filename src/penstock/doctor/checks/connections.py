"""Are there connections left?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.sql import quote


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


async def read(patient: Patient) -> list[Usage]:
    return await patient.ask(Usage, "examine_connections")


def judge(usages: Sequence[Usage], limits: Limits) -> Sequence[Finding]:
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


CONNECTIONS = Check("connections", Group.DATABASE, "Are there connections left?", read, judge)
