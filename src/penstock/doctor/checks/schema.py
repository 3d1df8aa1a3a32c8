"""Are the tables there, of the right version, and nothing missing or altered by hand?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from penstock import sql
from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, error, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.errors import SchemaError
from penstock.migrate import check as check_version
from penstock.migrate.compatibility import newest_functions
from penstock.wording import listed


class Part(Struct, frozen=True):
    """A function or an index that is not as it was made."""

    name: str
    missing: bool


class Schema(Struct, frozen=True):
    name: str
    problem: str | None = None
    functions: tuple[Part, ...] = ()
    indexes: tuple[Part, ...] = ()


async def read(patient: Patient) -> Schema:
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


def judge(schema: Schema, _: Limits) -> Sequence[Finding]:
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
    read,
    judge,
)
