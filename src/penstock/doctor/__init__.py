"""Examine a queue, its database and its workers, and say what is wrong and what to do about it.

report = await examine("postgresql://localhost/shop")
"""

from penstock.doctor.check import Check, CheckGroup, CheckLimits, Code, Finding, Verdict
from penstock.doctor.checks import CHECKS
from penstock.doctor.examination import Report, Result, examine

__all__ = [
    "CHECKS",
    "Check",
    "CheckGroup",
    "CheckLimits",
    "Code",
    "Finding",
    "Report",
    "Result",
    "Verdict",
    "examine",
]
