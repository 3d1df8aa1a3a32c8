"""An examination: one check after the other, none of which can stop the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.metadata import version

import asyncpg

from penstock.doctor.check import AnyCheck, Group
from penstock.doctor.checks import APP, CHECKS, CONNECTION
from penstock.doctor.code import Code
from penstock.doctor.finding import Finding, error, skipped, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Clock, Patient, local_time
from penstock.doctor.report import Report, Result
from penstock.doctor.unreachable import unreachable
from penstock.hosts import place
from penstock.store import Connection, connect, failures, standing
from penstock.wording import span

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
            found = await standing(connection, patient.schema)
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
    if failures.is_schema_missing(problem, patient.schema):
        return skipped(f"A table or a function is missing: {problem}.", "See the check schema.")
    if failures.is_lost(problem):
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
