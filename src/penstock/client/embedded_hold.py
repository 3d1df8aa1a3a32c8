"""An embedded Postgres for an app that names no database: never started without a word."""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.config import DATA_DIR, DATABASE_URL, REQUIRE_URL, Database, requires_url
from penstock.embedded import Hold, Server
from penstock.errors import EmbeddedError

log = logging.getLogger("penstock")

# The folders that this process has spoken of.
_announced: set[Path] = set()


def hold_embedded(database: Database) -> Hold:
    """Keep the embedded server of a database without a URL running; see `expect_asked`."""
    expect_asked(database)
    server = Server(database.data_dir)
    if database.data_dir is None and not server.status().persistent:
        _announce(server.data_dir)
    return server.acquire()


def expect_asked(database: Database) -> None:
    """Raise if an embedded server would be used that nobody asked for, where that is forbidden."""
    if database.url is None and database.data_dir is None and requires_url():
        raise EmbeddedError(
            f"No database is named, and {REQUIRE_URL}=1 forbids an embedded Postgres in its place. "
            f"Set {DATABASE_URL} to postgresql://user:password@host/database, or name it with "
            '--database-url or Penstock("postgresql://…").'
        )


def announced_elsewhere(database: Database) -> None:
    """Another process of the same command says that the embedded server is used."""
    if database.url is None:
        _announced.add(Server(database.data_dir).data_dir)


def _announce(folder: Path) -> None:
    if folder not in _announced:
        _announced.add(folder)
        log.warning(
            "No database is named, so an embedded Postgres is used, in %s. For yours set %s to "
            "postgresql://user:password@host/database. If the embedded one is meant, name its "
            "folder with %s or data_dir, or start it with `penstock db start`.",
            folder,
            DATABASE_URL,
            DATA_DIR,
        )
