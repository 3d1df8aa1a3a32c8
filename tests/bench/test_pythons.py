"""Which Python the peers run on."""

import platform
import sys
from pathlib import Path

import pytest

from benchmarks.comparison import pythons


def test_the_one_that_is_named_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pythons.NAMED, sys.executable)

    assert pythons.choose() == (sys.executable, platform.python_version())


def test_a_name_that_is_no_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pythons.NAMED, "/bin/false")

    with pytest.raises(SystemExit, match="PEERS_PYTHON is '/bin/false'"):
        pythons.choose()


def test_without_any_other_there_is_still_our_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(pythons.NAMED, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))

    assert pythons.choose() == (sys.executable, platform.python_version())
