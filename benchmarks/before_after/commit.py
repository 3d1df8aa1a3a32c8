"""An older state of the project, in a folder that is gone afterwards."""

from __future__ import annotations

import compileall
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison.environment import ROOT


@dataclass(frozen=True, slots=True)
class Commit:
    """Its name in short, and the folder of its files."""

    name: str
    folder: Path


@contextmanager
def checked_out(revision: str) -> Iterator[Commit]:
    """The files of a commit; SystemExit if git does not know it."""
    name = _git("rev-parse", "--short", f"{revision}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="penstock-before-") as folder:
        files = Path(folder) / "files.tar"
        _git("archive", f"--output={files}", name, "src", "benchmarks")
        with tarfile.open(files) as archive:
            archive.extractall(folder, filter="data")
        yield _compiled(Commit(name, Path(folder)))


def is_known(revision: str) -> bool:
    """Whether the commit is in this repository: a shallow clone has few."""
    words = ("git", "cat-file", "-e", f"{revision}^{{commit}}")
    return not subprocess.run(words, cwd=ROOT, capture_output=True).returncode


@contextmanager
def present() -> Iterator[Commit]:
    """The files as they are now, committed or not."""
    name = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks")
    yield _compiled(Commit(f"{name} with changes" if changed else name, ROOT))


def _compiled(commit: Commit) -> Commit:
    """With no module left that would be compiled while something is measured."""
    compileall.compile_dir(commit.folder / "src", quiet=2)
    return commit


def _git(*words: str) -> str:
    done = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()
