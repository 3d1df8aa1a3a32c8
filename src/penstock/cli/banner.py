"""What a service says of itself when it begins: where it is, and what it works on."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from penstock.app.app import Penstock
from penstock.hosts import place
from penstock.service.app import PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """The addresses, for people and as a document; the first key is told here and nowhere else."""

    app: Penstock
    name: str | None
    address: str
    key: str | None = None
    worker: str | None = None
    queues: tuple[str, ...] = ()

    def as_document(self) -> dict[str, object]:
        return {
            "address": self.address,
            "api": self.address + PREFIX,
            "openapi": f"{self.address}{PREFIX}/openapi.json",
            "app": self.name,
            "database": _database(self.app),
            "schema": self.app.database.schema,
            "worker": self.worker,
            "queues": list(self.queues),
            "key": self.key,
        }

    def __str__(self) -> str:
        return "\n".join([f"Penstock {version('penstock')}", *map(_line, self._lines()), ""])

    def _lines(self) -> list[tuple[str, str]]:
        api = self.address + PREFIX
        lines = [
            ("API", api),
            ("described at", f"{api}/openapi.json"),
            ("probes", f"{self.address}/livez, /readyz, /metrics"),
            ("tasks of", self.name or "no app: jobs can be looked at and changed, none enqueued"),
            ("database", f"{_database(self.app)}, schema {self.app.database.schema}"),
        ]
        if self.worker is not None:
            lines.append(("worker", f"{self.worker} for {', '.join(self.queues)}"))
        if self.key is not None:
            lines.append(("first key", f"{self.key}  (shown this once; keep it)"))
        return lines


def _line(line: tuple[str, str]) -> str:
    return f"  {line[0]:<14}{line[1]}"


def _database(app: Penstock) -> str:
    """Without what may be a password."""
    if app.database.url is None:
        return f"embedded Postgres in {app.database.data_dir or '.penstock'}"
    return place(app.database.url)
