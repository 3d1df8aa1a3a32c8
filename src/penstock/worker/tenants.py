"""The choice of tenants that a worker serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import ConfigError
from penstock.tasks.options import limit_key


@dataclass(frozen=True, slots=True)
class TenantFilter:
    """The tenants that a worker serves: all, some, or all but some.

    This has an effect on fair queues, whose lanes are tenants.
    """

    only: frozenset[str] | None = None
    excepted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, only: Iterable[str] | str | None, excepted: Iterable[str] | str) -> TenantFilter:
        """Parse the tenants as users give them: a name, several, or None for all."""
        chosen = None if only is None else _parse_names("tenants", only)
        tenants = cls(chosen, _parse_names("except_tenants", excepted))
        if chosen is not None and (not chosen or chosen & tenants.excepted):
            raise ConfigError(
                "tenants",
                sorted(chosen),
                "at least one tenant, and none that is also in except_tenants",
            )
        return tenants

    def serves(self, tenant: str) -> bool:
        return (self.only is None or tenant in self.only) and tenant not in self.excepted

    def problem(self, queue: str) -> str | None:
        """Return what is wrong with this choice for a queue that is not fair, or None."""
        if self.only is not None:
            effect = "this worker, which is for some tenants only, finds no jobs there"
        elif self.excepted:
            effect = "this worker takes the jobs of all tenants there"
        else:
            return None
        remedy = f"penstock queues set {queue} --fair"
        return f"The queue {queue} is not fair by tenant: {effect}. To change that, run `{remedy}`."


ALL = TenantFilter()


def _parse_names(setting: str, value: Iterable[str] | str) -> frozenset[str]:
    names = [value] if isinstance(value, str) else list(value)
    return frozenset(limit_key(setting, name) for name in names)
