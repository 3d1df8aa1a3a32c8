"""Run all checks and report what they found. A check that fails does not stop the others."""

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
    CheckContext,
    CheckGroup,
    CheckLimits,
    Clock,
    Code,
    Finding,
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
    """The findings of one check, the worst first, and how many seconds it took."""

    check: AnyCheck
    findings: tuple[Finding, ...]
    seconds: float = 0.0

    @property
    def verdict(self) -> Verdict:
        return max((each.verdict for each in self.findings), key=lambda verdict: verdict.rank)


class Report(Struct, frozen=True):
    """The results of all checks. `database` is the database's address without the password."""

    database: str
    schema: str
    penstock: str
    results: tuple[Result, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict. It is `skipped` only if all checks were skipped."""
        verdicts = {each.verdict for each in self.results}
        if verdicts <= {Verdict.OK, Verdict.SKIPPED}:
            return Verdict.OK if Verdict.OK in verdicts else Verdict.SKIPPED
        return max(verdicts, key=lambda verdict: verdict.rank)

    @property
    def counts(self) -> dict[str, int]:
        """The number of checks by verdict."""
        counted = Counter(each.verdict for each in self.results)
        return {str(verdict): counted[verdict] for verdict in Verdict}

    def as_document(self) -> dict[str, Any]:
        """Return the report for JSON: the verdict first, then every check with its findings."""
        return {
            "verdict": str(self.verdict),
            "counts": self.counts,
            "database": self.database,
            "schema": self.schema,
            "penstock": self.penstock,
            "checks": [_as_document(result) for result in self.results],
        }


def _as_document(result: Result) -> dict[str, Any]:
    return {
        "check": result.check.name,
        "group": str(result.check.group),
        "verdict": str(result.verdict),
        "seconds": round(result.seconds, 4),
        "findings": msgspec.to_builtins(result.findings),
    }


def unreachable(url: str, problem: Exception) -> Finding:
    """Return the finding for an error that kept the doctor from connecting."""
    match problem:
        case asyncpg.InvalidCatalogNameError():
            return _no_database(_database(url))
        case asyncpg.InvalidAuthorizationSpecificationError():
            return error(
                f"The server does not let the role in: {problem}.",
                "Mend the role's name or password in the address, or the server's pg_hba.conf.",
            )
        case asyncpg.TooManyConnectionsError():
            return _no_free_connection(problem)
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
    # Without a name in the address, the database has the name of the role.
    return parts.path.lstrip("/") or parts.username or ""


def _no_free_connection(problem: Exception) -> Finding:
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
    limits: CheckLimits | None = None,
    clock: Clock = local_time,
    code: Code | None = None,
) -> Report:
    """Examine a queue, its database and its workers.

    report = await examine("postgresql://localhost/shop")
    assert report.verdict == "ok"

    The checks only read, and each of their queries has a timeout. `code` holds the tasks and
    resources of an app. The check `app` compares the waiting jobs with them, and is left out if
    there is no `code`.
    """
    limits = limits or CheckLimits()
    chosen = [check for check in checks if code is not None or check is not APP]
    try:
        connection = await connect(url, name="penstock doctor")
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
        results = _all_skipped(chosen, unreachable(url, problem))
    else:
        context = CheckContext(connection, url, schema, limits, clock=clock, code=code)
        results = await _run_checks(context, chosen)
    return Report(place(url), schema, version("penstock"), tuple(results))


async def _run_checks(context: CheckContext, checks: Sequence[AnyCheck]) -> list[Result]:
    results: list[Result] = []
    try:
        confined = await _find_confinement(context)
        for check in checks:
            began = time.monotonic()
            if confined is not None and check.group is not CheckGroup.DATABASE:
                findings = [confined]
            else:
                findings = await _run_check(check, context)
            findings.sort(key=lambda finding: -finding.verdict.rank)
            with_commands = tuple(finding.for_schema(context.schema) for finding in findings)
            results.append(Result(check, with_commands, time.monotonic() - began))
    finally:
        await _close(context.connection)
    return results


async def _find_confinement(context: CheckContext) -> Finding | None:
    """Return a finding if row level security hides jobs from the role, else None.

    A queue whose jobs are hidden looks empty, and would be reported as healthy.
    """
    try:
        async with context.transaction() as connection:
            role_rights = await read_role_rights(connection, context.schema)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None  # The checks report the error.
    if role_rights is None or not role_rights.is_confined:
        return None
    return skipped(
        f"Row level security is on, and the role {role_rights.role} does not see all tenants' "
        "jobs.",
        f"Run the doctor as the owner of the schema, {role_rights.owner}.",
    )


async def _run_check(check: AnyCheck, context: CheckContext) -> list[Finding]:
    if context.connection.is_closed():
        return [skipped(NO_CONNECTION)]
    try:
        facts = await check.read(context)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as problem:
        return [_read_failure(problem, context)]
    return list(check.judge(facts, context.limits))


def _read_failure(problem: Exception, context: CheckContext) -> Finding:
    """Return the finding for an error that kept a check from reading its facts."""
    if isinstance(problem, asyncpg.QueryCanceledError):
        return warning(
            f"The database had no answer within {span(context.limits.reading)}.",
            "It is busy, or its indexes are full of dead entries: look at the checks snapshots "
            "and bloat, or ask again with a longer --timeout.",
        )
    if isinstance(problem, asyncpg.InsufficientPrivilegeError):
        return skipped(
            f"The role lacks a right for this check: {problem}.",
            "The check rights says what to grant.",
        )
    if errors.is_schema_missing(problem, context.schema):
        return skipped(f"A table or a function is missing: {problem}.", "See the check schema.")
    if errors.is_lost(problem):
        context.connection.terminate()
        return error(
            f"The connection broke: {str(problem) or 'the database fell silent'}.",
            "Look at the server's log, and at the network between.",
        )
    return error(
        f"The database refuses the query of this check: {problem}.", "Look at the server's log."
    )


def _all_skipped(checks: Sequence[AnyCheck], reason: Finding) -> list[Result]:
    others = [check for check in checks if check is not CONNECTION]
    return [
        Result(CONNECTION, (reason,)),
        *(Result(check, (skipped(NO_CONNECTION),)) for check in others),
    ]


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=1)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
