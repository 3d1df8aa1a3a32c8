"""Which migrations lead from where a database is to where it should be."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from penstock.errors import BadArgument, SchemaTooNew
from penstock.sql import migration, migrations, quote


@dataclass(frozen=True, slots=True)
class Step:
    """One migration, up or down."""

    number: int
    name: str
    direction: Literal["up", "down"]

    def sql(self, schema: str) -> str:
        """The step's statements; the list is changed first, so a step is never taken twice."""
        return f"{self._entry(schema)}\n\n{migration(self.name, self.direction, schema)}"

    def _entry(self, schema: str) -> str:
        table = f"{quote(schema)}.migration"
        if self.direction == "up":
            return f"INSERT INTO {table} (number, name) VALUES ({self.number}, '{self.name}');"
        return f"DELETE FROM {table} WHERE number = {self.number};"


def newest() -> int:
    """The number of the newest migration that this version knows."""
    return migrations()[-1][0]


def plan(applied: Collection[int], to: int | None, schema: str) -> list[Step]:
    """The steps from what was applied to migration `to`, the newest unless given."""
    target = newest() if to is None else to
    if target != 0 and target not in dict(migrations()):
        raise BadArgument("to", to, f"0 or the number of a migration, at most {newest()}")
    found = max(applied, default=0)
    if found > newest():
        raise SchemaTooNew(schema, found, newest())
    down = [
        Step(number, name, "down")
        for number, name in reversed(migrations())
        if number > target and number in applied
    ]
    up = [
        Step(number, name, "up")
        for number, name in migrations()
        if number <= target and number not in applied
    ]
    return down + up
