"""Write schema.sql, which shows the schema after all migrations to readers and reviewers.

Run `python -m penstock.migrate.schema` to write it anew.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from penstock.embedded import Server
from penstock.migrate.runner import migrate

HEAD = """\
-- What the migrations come to, as pg_dump shows it; made by `make schema`, not edited by hand.
-- Left out are history's partitions, one a day, and what depends on the version of Postgres.
SET check_function_bodies = false;
"""
# Lines that begin like this are pg_dump's own. The lines of a function's body are indented.
PG_DUMP_PREFIXES = ("--", "\\", "SET ", "SELECT pg_catalog.set_config")


def path() -> Path:
    """Return where schema.sql is."""
    return Path(str(files("penstock.sql") / "schema.sql"))


def dump(url: str) -> str:
    """Return a dump of a database's schema, without lines that differ by day or by server."""
    run = subprocess.run(
        [
            Server().binaries().program("pg_dump"),
            *("--schema-only", "--no-owner", "--no-privileges", "--schema=penstock"),
            "--exclude-table=penstock.job_history_[0-9]*",
            url,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in run.stdout.splitlines() if not line.startswith(PG_DUMP_PREFIXES)]
    shown = [line for before, line in pairwise(["", *lines]) if before or line]
    return HEAD + "\n" + "\n".join(shown).strip() + "\n"


def write() -> None:
    """Write schema.sql from a fresh database."""
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder, "server")).hold() as url:
        asyncio.run(migrate(url))
        path().write_text(dump(url), "utf-8")


if __name__ == "__main__":
    write()
