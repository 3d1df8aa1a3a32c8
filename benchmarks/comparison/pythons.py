"""The Python that all peers run on: one for all of them, new enough for the choosiest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMED = "PEERS_PYTHON"
WANTED = ("3.12", "3.13", "3.14")

_CHECK = "import ensurepip, sys, venv; print('%d.%d.%d' % sys.version_info[:3])"


def choose() -> tuple[str, str]:
    """A command that really runs, and its version: PEERS_PYTHON, else 3.12 or newer, else ours."""
    if named := os.environ.get(NAMED):
        version = _version(named)
        if version is None:
            raise SystemExit(f"{NAMED} is {named!r}, which is no Python with venv and ensurepip.")
        return named, version
    for command in (*_found(), sys.executable):
        if version := _version(command):
            return command, version
    raise SystemExit(f"No Python with venv and ensurepip was found; name one with {NAMED}=….")


def _found() -> Iterator[str]:
    """Names on PATH, then pyenv's versions, which need not be on PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in WANTED:
        yield f"python{version}"
        yield from map(str, sorted(pyenv.glob(f"{version}.*/bin/python3")))


def _version(command: str) -> str | None:
    """None if it does not run: a name on PATH may be a shim for a version that is absent."""
    try:
        answer = subprocess.run(
            [command, "-c", _CHECK], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
