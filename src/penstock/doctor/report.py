"""The report of an examination."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from penstock.doctor.check import AnyCheck
from penstock.doctor.finding import Finding, Verdict


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
