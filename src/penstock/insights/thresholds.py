"""From where on a queue counts as degraded, or as down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock.errors import ConfigError

HEALTH = "PENSTOCK_HEALTH"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Seconds, shares from 0 to 1, and numbers of jobs or workers.

    Thresholds(oldest_ready_degraded=60, error_rate_down=0.3)
    """

    unserved: float = 30.0
    oldest_ready_degraded: float = 300.0
    oldest_ready_down: float = 3600.0
    window: float = 900.0
    error_rate_least: int = 20
    error_rate_degraded: float = 0.1
    error_rate_down: float = 0.5
    dead_hourly: int = 100
    lost_workers: int = 1
    latency_degraded: float = 0.5
    latency_down: float = 5.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ConfigError(each.name, value, "a number from 0 on")
        if not 1 <= self.window <= 7 * 86_400:
            raise ConfigError("window", self.window, "1 second to 7 days")
        for name in ("oldest_ready", "error_rate", "latency"):
            degraded, down = getattr(self, f"{name}_degraded"), getattr(self, f"{name}_down")
            if down < degraded:
                raise ConfigError(f"{name}_down", down, f"at least {name}_degraded, {degraded}")

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Thresholds:
        """The defaults, but for what PENSTOCK_HEALTH says: `error_rate_down=0.3,dead_hourly=10`."""
        given = environment.get(HEALTH, "")
        values: dict[str, Any] = dict(_read(part) for part in given.split(",") if part.strip())
        return cls(**values)


def _read(part: str) -> tuple[str, float]:
    name, _, text = (each.strip() for each in part.partition("="))
    names = {each.name for each in fields(Thresholds)}
    if name not in names:
        raise ConfigError(HEALTH, part, f"one of {', '.join(sorted(names))}, as name=number")
    try:
        return name, float(text)
    except ValueError:
        raise ConfigError(HEALTH, part, f"{name}=a number") from None
