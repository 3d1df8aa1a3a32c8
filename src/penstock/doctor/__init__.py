"""What is wrong with a queue, its database and its workers, and what to do about it.

report = await examine("postgresql://localhost/shop")
"""

from penstock.doctor.check import Check, Group
from penstock.doctor.checks import CHECKS
from penstock.doctor.code import Code
from penstock.doctor.examination import examine
from penstock.doctor.finding import Finding, Verdict
from penstock.doctor.limits import Limits
from penstock.doctor.report import Report, Result

__all__ = [
    "CHECKS",
    "Check",
    "Code",
    "Finding",
    "Group",
    "Limits",
    "Report",
    "Result",
    "Verdict",
    "examine",
]
