"""One check of the doctor at a time."""

from dataclasses import dataclass
from typing import Any

import asyncpg

from penstock.doctor import CHECKS, CheckLimits, Finding, Report, Verdict, examine

OK, SKIPPED, WARNING, ERROR = Verdict.OK, Verdict.SKIPPED, Verdict.WARNING, Verdict.ERROR


@dataclass(frozen=True, slots=True)
class Examined:
    """The doctor at one database; limits are given by their names.

    >>> [finding] = await examined("snapshots", snapshot_warning=0)
    """

    url: str

    async def __call__(self, check: str, **given: Any) -> tuple[Finding, ...]:
        """What one check finds."""
        report = await self.report(check, **given)
        return report.results[-1].findings

    async def report(self, *checks: str, **given: Any) -> Report:
        others = {key: given.pop(key) for key in ("clock", "code", "schema") if key in given}
        chosen = [check for check in CHECKS if not checks or check.name in checks]
        return await examine(self.url, checks=chosen, limits=CheckLimits(**given), **others)


async def paste(connection: asyncpg.Connection, finding: Finding) -> None:
    """Do what a finding says, line by line."""
    assert finding.paste
    for statement in finding.paste:
        await connection.execute(statement)
