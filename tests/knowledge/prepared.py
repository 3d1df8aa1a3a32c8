"""A database into which files were taken once: tests begin with a copy of it, and of the files."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock import Penstock
from penstock_apps.knowledge.knowledge import Knowledge
from tests.fixtures.database import END_SESSIONS, Database, create, drop
from tests.fixtures.server import PostgresServer
from tests.knowledge.scene import Scene


@dataclass(frozen=True)
class Prepared:
    """What the copies are made of."""

    database: Database
    objects: Path


@asynccontextmanager
async def prepared(
    postgres: PostgresServer,
    template: Database,
    folder: Path,
    contents: Mapping[str, str | bytes],
    **settings: str,
) -> AsyncIterator[Prepared]:
    """Files that are in, as acme's, in the base handbook; settings are PENSTOCK_KNOWLEDGE_…"""
    made = Prepared(await create(postgres, source=template.name), folder / "objects")
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {"STORAGE": str(made.objects), **settings}.items():
                patch.setenv(f"PENSTOCK_KNOWLEDGE_{name}", value)
            knowledge = Knowledge(app := Penstock(made.database.url))
            async with app, knowledge.opened() as runtime:
                scene = Scene(knowledge, runtime, folder / "files")
                await scene.bring(knowledge.of(runtime, "acme"), contents)
        postgres.admin.fetch(END_SESSIONS, database=made.database.name)
        yield made
    finally:
        await drop(postgres, made.database)
