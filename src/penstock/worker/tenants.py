"""Which tenants a worker serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.tasks.options import limit_key


@dataclass(frozen=True, slots=True)
class Tenants:
    """All of them, only some, or all but some. On fair queues, whose lanes are tenants."""

    only: frozenset[str] | None = None
    excepted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, only: Iterable[str] | str | None, excepted: Iterable[str] | str) -> Tenants:
        """As given: a name, several, or None for all."""
        kept = None if only is None else _names("tenants", only)
        tenants = cls(kept, _names("except_tenants", excepted))
        if kept is not None and (not kept or kept & tenants.excepted):
            raise ConfigError("tenants", sorted(kept), "some that are not in except_tenants too")
        return tenants

    def serves(self, turn: str) -> bool:
        return (self.only is None or turn in self.only) and turn not in self.excepted

    def problem(self, queue: str) -> str | None:
        """What is wrong with this choice on a queue whose lanes are not tenants."""
        if self.only is not None:
            effect = "this worker, which is for some tenants only, finds no jobs there"
        elif self.excepted:
            effect = "this worker takes the jobs of all tenants there"
        else:
            return None
        remedy = f"penstock queues set {queue} --fair"
        return f"The queue {queue} is not fair by tenant: {effect}. To change that: {remedy}"


ALL = Tenants()


def _names(setting: str, given: Iterable[str] | str) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given)
    return frozenset(limit_key(setting, name) for name in names)
