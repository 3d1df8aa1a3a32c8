"""What a page is followed with: a folder, a database, a reader."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.docs.page import Page
from tests.docs.reader import Reader
from tests.fixtures.database import Database


@pytest.fixture
async def follow(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[Page], object]]:
    """Follow one page in a project folder of its own."""
    readers: list[Reader] = []

    async def follow(page: Page) -> None:
        url = None if page.is_embedded else database.url
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        for name in ("PENSTOCK_DATABASE_URL", "DJANGO_SETTINGS_MODULE"):
            monkeypatch.delenv(name, raising=False)
        if url:
            monkeypatch.setenv("PENSTOCK_DATABASE_URL", url)
        readers.append(Reader(tmp_path, url, database.admin_url))
        await readers[-1].follow(page)

    yield follow
    for reader in readers:
        await reader.close()
