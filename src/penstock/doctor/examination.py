"""An examination runs all checks, none of which can stop the next, and reports what they found."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import msgspec
from msgspec import Struct

from penstock.doctor.check import (
    AnyCheck,
    Clock,
    Code,
    Finding,
    Group,
    Limits,
    Patient,
    Verdict,
    error,
    local_time,
    skipped,
    warning,
)
from penstock.doctor.checks import APP, CHECKS, CONNECTION
from penstock.hosts import DEFAULT_PORT, Host, hosts_of, place
from penstock.sql import quote
from penstock.store import Connection, connect, errors, read_role_rights
from penstock.wording import span


class Result(Struct, frozen=True):
    """What one check found, the worst first, and how long it took."""

    check: AnyCheck
    findings: tuple[Finding, ...]
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        return max((each.verdict for each in self.findings), key=lambda verdict: verdict.rank)


class Report(Struct, frozen=True):
    """All results. `database` is its address without a password."""

    database: str
    schema: str
    penstock: str
    results: tuple[Result, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all; `skipped` only if nothing at all could be looked at."""
        verdicts = {each.verdict for each in self.results}
        if verdicts <= {Verdict.OK, Verdict.SKIPPED}:
            return Verdict.OK if Verdict.OK in verdicts else Verdict.SKIPPED
        return max(verdicts, key=lambda verdict: verdict.rank)

    @property
    def counts(self) -> dict[str, int]:
        """How many checks came to which verdict."""
        counted = Counter(each.verdict for each in self.results)
        return {str(verdict): counted[verdict] for verdict in Verdict}

    def as_document(self) -> dict[str, Any]:
        """For JSON: the verdict first, then every check with its findings."""
        return {
            "verdict": str(self.verdict),
            "counts": self.counts,
            "database": self.database,
            "schema": self.schema,
            "penstock": self.penstock,
            "checks": [_described(result) for result in self.results],
        }


def _described(result: Result) -> dict[str, Any]:
    return {
        "check": result.check.name,
        "group": str(result.check.group),
        "verdict": str(result.verdict),
        "seconds": round(result.seconds, 4),
        "findings": msgspec.to_builtins(result.findings),
    }


def unreachable(url: str, problem: Exception) -> Finding:
    """What it means that no connection could be opened."""
    match problem:
        case asyncpg.InvalidCatalogNameError():
            return _no_database(_database(url))
        case asyncpg.InvalidAuthorizationSpecificationError():
            return error(
                f"The server does not let the role in: {problem}.",
                "Mend the role's name or password in the address, or the server's pg_hba.conf.",
            )
        case asyncpg.TooManyConnectionsError():
            return _full(problem)
        case asyncpg.PostgresError():
            return error(f"The server refuses: {problem}.", "Look at the server's log.")
    return _no_server(url, errors.why(problem))


def _no_database(name: str) -> Finding:
    return error(
        f"The server has no database {name}.",
        "Make it, or mend the address:",
        f"CREATE DATABASE {quote(name)};",
    )


def _database(url: str) -> str:
    parts = urlsplit(url)
    # Without a name in the address it is the role's.
    return parts.path.lstrip("/") or parts.username or ""


def _full(problem: Exception) -> Finding:
    return error(
        f"The server takes no more connections: {problem}.",
        "End what is not needed, put a pooler between, or raise the limit. As a superuser:",
        "SELECT usename, application_name, state, count(*) FROM pg_stat_activity "
        "GROUP BY 1, 2, 3 ORDER BY 4 DESC;",
    )


def _no_server(url: str, why: str) -> Finding:
    remedy = "Is it running, is the address right, and does a firewall let it through?"
    if len(hosts_of(url)) > 1:
        remedy += " During a failover, wait until a standby has been promoted."
    return error(
        f"The database cannot be reached: {why}.",
        remedy,
        *(
            f"pg_isready --host {shlex.quote(host.name)} --port {host.port}"
            for host in hosts_of(url) or [Host("localhost", DEFAULT_PORT)]
        ),
    )


NO_CONNECTION = "There is no connection to the database."


async def examine(
    url: str,
    *,
    schema: str = "penstock",
    checks: Sequence[AnyCheck] = CHECKS,
    limits: Limits | None = None,
    clock: Clock = local_time,
    code: Code | None = None,
) -> Report:
    """Examine a queue, its database and its workers. It reads only, and never for long.

    report = await examine("postgresql://localhost/shop")
    assert report.verdict == "ok"

    `code` is an app to compare the waiting jobs with; without it the check `app` is left out.
    """
    limits = limits or Limits()
    chosen = [check for check in checks if code is not None or check is not APP]
    try:
        connection = await connect(url, name="penstock doctor")
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
        results = _all_skipped(chosen, unreachable(url, problem))
    else:
        patient = Patient(connection, url, schema, limits, clock=clock, code=code)
        results = await _examined(patient, chosen)
    return Report(place(url), schema, version("penstock"), tuple(results))


async def _examined(patient: Patient, checks: Sequence[AnyCheck]) -> list[Result]:
    results: list[Result] = []
    try:
        hidden = await _hidden(patient)
        for check in checks:
            began = time.monotonic()
            if hidden is not None and check.group is not Group.DATABASE:
                findings = [hidden]
            else:
                findings = await _looked_at(check, patient)
            findings.sort(key=lambda finding: -finding.verdict.rank)
            led = tuple(finding.led_to(patient.schema) for finding in findings)
            results.append(Result(check, led, time.monotonic() - began))
    finally:
        await _leave(patient.connection)
    return results


async def _hidden(patient: Patient) -> Finding | None:
    """Why the queue cannot be seen, if the role is under row level security: none is no news."""
    try:
        async with patient.bounds() as connection:
            found = await read_role_rights(connection, patient.schema)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None  # the checks say why
    if found is None or not found.is_confined:
        return None
    return skipped(
        f"Row level security is on, and the role {found.role} does not see all tenants' jobs.",
        f"Run the doctor as the owner of the schema, {found.owner}.",
    )


async def _looked_at(check: AnyCheck, patient: Patient) -> list[Finding]:
    if patient.connection.is_closed():
        return [skipped(NO_CONNECTION)]
    try:
        facts = await check.read(patient)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
        return [_unread(problem, patient)]
    return list(check.judge(facts, patient.limits))


def _unread(problem: Exception, patient: Patient) -> Finding:
    """What it means that a check could not look."""
    if isinstance(problem, asyncpg.QueryCanceledError):
        return warning(
            f"The database had no answer within {span(patient.limits.reading)}.",
            "It is busy, or its indexes are full of dead entries: look at the checks snapshots "
            "and bloat, or ask again with a longer --timeout.",
        )
    if isinstance(problem, asyncpg.InsufficientPrivilegeError):
        return skipped(f"The role may not look: {problem}.", "The check rights says what to grant.")
    if errors.is_schema_missing(problem, patient.schema):
        return skipped(f"A table or a function is missing: {problem}.", "See the check schema.")
    if errors.is_lost(problem):
        patient.connection.terminate()
        return error(
            f"The connection broke: {str(problem) or 'the database fell silent'}.",
            "Look at the server's log, and at the network between.",
        )
    return error(f"The database refuses to say: {problem}.", "Look at the server's log.")


def _all_skipped(checks: Sequence[AnyCheck], reason: Finding) -> list[Result]:
    others = [check for check in checks if check is not CONNECTION]
    return [
        Result(CONNECTION, (reason,)),
        *(Result(check, (skipped(NO_CONNECTION),)) for check in others),
    ]


async def _leave(connection: Connection) -> None:
    try:
        await connection.close(timeout=1)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
