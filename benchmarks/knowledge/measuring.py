"""All measurements of a run, one after the other."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.comparison.environment import CannotInstall
from benchmarks.comparison.postgres import Database, Postgres, server
from benchmarks.knowledge import edits, extraction, theirs
from benchmarks.knowledge.corpora import copied, folder_of, spread
from benchmarks.knowledge.ours import ingest, migrate
from penstock.bench.report import LiveLine
from penstock.bench.sandbox import SandboxServer, machine

TEXTS, PAGES, PDFS = "linux-doc-6.1", "postgresql-doc-15", "texlive-latex-recommended-doc"
EDITED = 0.05
MOST_PDFS = 100
CHUNKS = """
SELECT count(*) AS chunks, avg(octet_length(text))::float8 AS bytes FROM penstock_knowledge.chunk
"""


class Measuring:
    """Each measurement has a database and folders of its own."""

    def __init__(self, live: LiveLine, most_files: int) -> None:
        self._live = live
        self._most = most_files

    async def run(self, database_url: str | None) -> dict[str, Any]:
        before = machine()
        async with server(database_url) as postgres:
            return {
                **await self._coming_in(postgres),
                "edits": await self._edits(postgres),
                "extraction": self._extraction(),
                **(await SandboxServer.of(postgres.admin)).as_dict(),
                "machine": before,
            }

    async def _coming_in(self, postgres: Postgres) -> dict[str, Any]:
        """Text files, for which nothing but text is needed: ours and theirs, then ours again."""
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as place:
            folder = self._files(TEXTS, "*.rst.txt", Path(place) / "files")
            return {
                "cocoindex": await self._theirs(postgres, folder, Path(place)),
                "ours": await self._ours(postgres, folder, Path(place)),
            }

    async def _ours(self, postgres: Postgres, folder: Path, place: Path) -> dict[str, Any]:
        async with _database(postgres, "ours") as database:
            await migrate(database.url)
            with self._live.doing("penstock ingest"):
                first = await ingest(folder, database.url, place / "objects")
            with self._live.doing("penstock ingest, again"):
                second = await ingest(folder, database.url, place / "objects")
            async with database.connect() as connection:
                stored = await connection.fetchrow(CHUNKS)
        assert stored is not None
        return {
            "files": first["completed"],
            "chunks": stored["chunks"],
            "chunk_bytes": stored["bytes"],
            "seconds": first["wall_seconds"],
            "again_seconds": second["wall_seconds"],
            "again_unchanged": second["unchanged"],
        }

    async def _theirs(self, postgres: Postgres, folder: Path, place: Path) -> dict[str, Any]:
        try:
            with self._live.doing("CocoIndex: its environment"):
                python = theirs.installed()
            async with _database(postgres, "cocoindex") as database:
                with self._live.doing("CocoIndex"):
                    return await theirs.bring_in(python, folder, database.url, place / "cocoindex")
        except CannotInstall as error:
            self._live.warn(f"CocoIndex is left out: {error}")
            return {"left_out": str(error)}

    async def _edits(self, postgres: Postgres) -> dict[str, Any]:
        """A manual, and the same with some paragraphs edited."""
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as place:
            folder = self._files(PAGES, "*.html", Path(place) / "files")
            async with _database(postgres, "edits") as database:
                await migrate(database.url)
                with self._live.doing("a manual"):
                    first = await ingest(folder, database.url, Path(place) / "objects")
                    old = edits.hashes(folder)
                    changed = edits.edit(folder, EDITED)
                with self._live.doing("the manual, edited"):
                    second = await ingest(folder, database.url, Path(place) / "objects")
            new = edits.hashes(folder)
        return {
            "files": first["total"],
            "chunks": first["chunks"],
            "first_embedded": first["embedded"],
            "edited_files": changed,
            "changed_chunks": len(new - old),
            "embedded": second["embedded"],
        }

    def _extraction(self) -> dict[str, Any]:
        with self._live.doing("PDF files"):
            return extraction.measure(spread(folder_of(PDFS).rglob("*.pdf"), MOST_PDFS))

    def _files(self, package: str, pattern: str, to: Path) -> Path:
        with self._live.doing(f"the files of {package}"):
            root = folder_of(package)
            return copied(spread(root.rglob(pattern), self._most), root, to)


@asynccontextmanager
async def _database(postgres: Postgres, name: str) -> AsyncIterator[Database]:
    async with postgres.database(name) as database:
        await postgres.extend(database, "vector")
        yield database
