"""Where the server listens: a socket in a private folder, and the URLs that lead there.

The folder lies in /tmp because a socket's path may have only about 100 bytes, and data folders
may be deep or on disks that cannot hold sockets. Its mode 0700 lets in only the server's account,
and root; Postgres then asks the kernel who is calling (peer authentication) and admits the same
two. So there is no password that could leak, and nothing listens on the network.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded.account import Account
from penstock.errors import EmbeddedError

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
