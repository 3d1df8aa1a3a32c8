"""A peer's environment: a folder with its Python and exactly the packages that its file pins."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench"
PEERS = ROOT / "benchmarks" / "peers"


class CannotInstall(Exception):
    """The peer is left out; the message says why."""


class Environment:
    """Made when it is first needed, and anew when its file has changed."""

    def __init__(self, name: str, pinned_in: Path = PEERS) -> None:
        self.name = name
        self._folder = FOLDER / name
        self._requirements = pinned_in / f"{name}.txt"
        self._stamp = self._folder / "installed"

    @property
    def python(self) -> str:
        return str(self._folder / "bin" / "python")

    def is_made(self) -> bool:
        """With whatever Python."""
        return self._stamp.exists() and self._stamp.read_text().split()[0] == self._pins()

    def requirements(self) -> list[str]:
        """What it is made of, a line each."""
        lines = self._requirements.read_text().splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    def make(self, python: str, version: str) -> None:
        """Install the peer for this Python, unless that is done already."""
        done = f"{self._pins()} {version}"
        if self._stamp.exists() and self._stamp.read_text() == done:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._run(python, "-m", "venv", str(self._folder))
        self._run(self.python, "-m", "pip", "install", "--quiet", "-r", str(self._requirements))
        self._stamp.write_text(done)

    def _pins(self) -> str:
        """A fingerprint of what is pinned; Penstock's own is in the files of the project."""
        files = [self._requirements]
        if self.name == "penstock":
            files += [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise CannotInstall(f"it could not be installed: {' '.join(last)}")
