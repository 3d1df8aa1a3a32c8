"""The odd PDFs that pypdf is tested with: each gives text or a reason."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import extract

pytestmark = [
    pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="PENSTOCK_LONG=1 runs it"),
    pytest.mark.timeout(600),
]


def test_every_odd_pdf_gives_text_or_a_reason(tmp_path: Path) -> None:
    download = ["pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "pypdf"]
    subprocess.run([sys.executable, "-m", *download, "-d", str(tmp_path)], check=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    found = Counter(outcome(path) for path in tmp_path.rglob("*.pdf"))
    assert found.total() >= 50
    assert found["text"] > found.total() / 2
    assert found["encrypted"] >= 5
    assert set(found) <= {"text", "encrypted", "no_text", "broken"}


def outcome(path: Path) -> str:
    try:
        extract(path, path.name)
    except Unreadable as refused:
        return refused.reason
    return "text"
