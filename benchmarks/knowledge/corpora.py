"""Documents that come by the name of a package of Debian's, unpacked in a folder of their own.

`python -m benchmarks.knowledge.corpora PACKAGE` fetches one and says where its files are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.comparison.environment import FOLDER

CORPORA = FOLDER / "corpora"
INSTALLED = Path("/usr/share")


class CannotHave(Exception):
    """The package cannot be had here; the message says why."""


def folder_of(package: str) -> Path:
    """Where the files of a package are; fetched once."""
    place = CORPORA / package
    if not place.exists():
        new = CORPORA / f"{package}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        _run(["apt-get", "download", package], new)
        (archive,) = new.glob("*.deb")
        _run(["dpkg-deb", "-x", archive.name, "files"], new)
        archive.unlink()
        new.rename(place)
    return _files(place)


def present(package: str) -> Path | None:
    """A package's documentation if it was fetched or is installed; nothing is fetched."""
    places = (place / "doc" / package for place in (_files(CORPORA / package), INSTALLED))
    return next((place for place in places if place.exists()), None)


def _files(place: Path) -> Path:
    return place / "files" / "usr" / "share"


def copied(files: Sequence[Path], root: Path, to: Path) -> Path:
    """These files alone, under another folder."""
    for file in files:
        place = to / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    return to


def spread(files: Iterator[Path], most: int) -> list[Path]:
    """So many of the files, from all over them."""
    found = sorted(file for file in files if file.is_file())
    if not found:
        raise CannotHave("There are no such files in the package.")
    step = max(1, len(found) // most)
    return found[::step][:most]


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise CannotHave(f"There is no {command[0]} here.") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotHave(f"{command[0]} failed: {' '.join(last)}")


if __name__ == "__main__":
    try:
        print(folder_of(sys.argv[1]))
    except CannotHave as reason:
        raise SystemExit(str(reason)) from None
