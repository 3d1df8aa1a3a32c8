"""How PgQueuer is run: nobody should say that it was held back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """One connection or a pool, jobs in a batch, and queue managers side by side in the process."""

    driver: Literal["pool", "connection"] = "pool"
    batch: int = 1000
    managers: int = 1

    def arguments(self) -> list[str]:
        return [self.driver, str(self.batch), str(self.managers)]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        managers = f", {self.managers} managers" if self.managers > 1 else ""
        return f"{self.driver}, batches of {self.batch:,}{managers}"


# The first is used where nothing is tried out.
VARIANTS = (
    Settings(),
    Settings(batch=300),
    Settings(managers=2),
    Settings("connection"),
    Settings("connection", managers=2),
)
