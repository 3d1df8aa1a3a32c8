"""The operating-system account that the server runs under.

Postgres refuses to run as root, so root's servers run under an unprivileged account: the owner of
the data folder, or if that is root, the account `penstock`, else `postgres`, else `penstock` is
created. Never `nobody`, which other services share. Everybody else's servers run under their own.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

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
