"""A scene of real processes for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.scene import Scene
from tests.fixtures.database import Database


@pytest.fixture
async def scene(database: Database, tmp_path: Path) -> AsyncIterator[Scene]:
    """A database with a journal, and no process yet."""
    scene = Scene(database.url, tmp_path)
    await scene.install_journal()
    yield scene
    scene.end()
