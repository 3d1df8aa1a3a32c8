"""Files to read: some that are here, some that a test makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock_apps.knowledge.extract import ReadLimits, extract
from penstock_apps.knowledge.text import Extracted

FILES = Path(__file__).parent.parent / "files"

Read = Callable[..., Extracted]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read a file of that name; its content is given, or is that of a file that is here."""

    def read(name: str, content: bytes | str | None = None, **limits: int) -> Extracted:
        path = FILES / name
        if content is not None:
            path = tmp_path / "uploaded"
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return extract(path, name, limits=ReadLimits(**limits))

    return read
