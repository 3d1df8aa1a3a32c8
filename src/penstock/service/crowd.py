"""How many requests are being answered, and whether there is room for one more."""

from __future__ import annotations

from penstock.service.gate import HEADERS
from penstock.service.problem import Problem


class Crowd:
    """Requests below `prefix`, until they begin to be answered. Probes are not among them: a server
    that is busy lives."""

    def __init__(self, most: int, prefix: str) -> None:
        self.most = most
        self.prefix = prefix
        self.under_way = 0

    @property
    def is_full(self) -> bool:
        return self.under_way >= self.most

    def refusal(self) -> Problem:
        """What one too many is told."""
        told = f"{self.most:,} requests are being answered, and no more are begun."
        return Problem(503, "busy", told, headers=dict(HEADERS))
