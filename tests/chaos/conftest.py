"""A scene of real processes for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.crashing import CrashingServer, crashing_server
from tests.chaos.scene import Scene
from tests.fixtures.database import Database


@pytest.fixture
async def scene(database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    """A database with a journal, and no process yet."""
    scene = Scene(database.url, tmp_path)
    await scene.install_journal()
    yield scene
    scene.end()


@pytest.fixture
async def server() -> AsyncIterator[CrashingServer]:
    """A Postgres of the test's own."""
    async with crashing_server() as server:
        yield server


@pytest.fixture
async def crashing_scene(server: CrashingServer, tmp_path: Path) -> AsyncIterator[Scene]:
    """A scene on a server that may be crashed."""
    scene = Scene(server.url, tmp_path)
    await scene.install_journal()
    yield scene
    scene.end()
