"""Start and stop the Postgres server that works on the files of a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded import postmaster
from penstock.embedded.folder import Folder, LockedFile
from penstock.embedded.install import Binaries, Endpoint, account_for, create_database
from penstock.embedded.postmaster import START_LOG, describe_last_log_error
from penstock.errors import EmbeddedError


@dataclass(frozen=True)
class Status:
    running: bool
    pid: int | None
    version: str
    """The version of the Postgres binaries, such as "18.4"."""
    data_dir: Path
    socket_dir: Path | None
    """The folder of the server's socket, or None if the data folder does not exist."""
    holders: tuple[int, ...]
    """The process id of each hold. A process with two holds is listed twice."""
    persistent: bool
    """Whether the server keeps running without holders until `stop()`, because of `start()`."""


# A start may have to recover from a crash, and a stop has to write a checkpoint.
START_STOP_TIMEOUT_S = 120


class Cluster:
    """The Postgres server of one folder. Use it only under the folder's lock."""

    def __init__(self, folder: Folder, binaries: Binaries) -> None:
        self._folder = folder
        self._account = account_for(folder.data)
        self._binaries = binaries.usable_by(self._account)
        self._endpoint = Endpoint(folder.name)

    def ensure(self) -> None:
        """Create and start the server if necessary, and return once it answers."""
        self._refuse_other_major()
        deadline = time.monotonic() + START_STOP_TIMEOUT_S
        while not self._answers():
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"The Postgres in {self._folder.path} runs, but has not answered for "
                    f"{START_STOP_TIMEOUT_S} s. {describe_last_log_error(self._folder.data)} "
                    "End it with `penstock db stop` and try again."
                )
            time.sleep(0.05)

    def stop(self, mode: str = "fast") -> None:
        if running := postmaster.find(self._folder.data, self._folder.name):
            self._refuse_other_socket(running)
            self._pg_ctl("stop", "-m", mode)
        self._endpoint.close()

    def stop_if_unused(self) -> None:
        self._folder.holders.sweep()
        if not self._folder.is_persistent and not self._folder.holders.pids():
            self.stop()

    def _answers(self) -> bool:
        running = postmaster.find(self._folder.data, self._folder.name)
        if running is None:
            self._start()
        else:
            self._refuse_other_socket(running)
        # A server that does not answer yet is still starting, after the process that started it
        # was killed, or it is stopping.
        return postmaster.provision(
            self._binaries.program("psql"), self._endpoint.url("postgres", "postgres")
        )

    def _start(self) -> None:
        if self._folder.major is None:
            create_database(self._folder, self._binaries, self._account)
        postmaster.end_orphans(self._folder.name)
        with self._server_lock() as lock:
            # Postgres would not start if another process or a zombie now had the number in it.
            (self._folder.data / "postmaster.pid").unlink(missing_ok=True)
            (self._folder.data / START_LOG).unlink(missing_ok=True)
            self._repair_permissions()
            self._endpoint.open(self._account)
            self._pg_ctl("start", "-o", self._endpoint.options(), keep_open=(lock,))

    def _repair_permissions(self) -> None:
        # Postgres insists on owner and mode, and a copy or a backup may have lost them.
        if self._folder.data.stat().st_uid != self._account.uid:
            self._account.own(self._folder.data)
        self._folder.data.chmod(0o700)

    @contextmanager
    def _server_lock(self) -> Iterator[int]:
        """Take the lock of the server, and yield its descriptor for the server to inherit.

        The server's processes keep the lock until the last one has ended. Two servers would destroy
        the files that they share. A server in another container holds the lock, too, although its
        process ids cannot be seen from here. Raises `EmbeddedError` if another server has the lock.
        """
        with closing(LockedFile(self._folder.server)) as lock:
            if not lock.try_lock():
                raise EmbeddedError(
                    f"A Postgres that cannot be seen from here, perhaps in another container, "
                    f"runs on {self._folder.data}. Stop it there and try again."
                )
            yield lock.fileno()

    def _pg_ctl(self, verb: str, *options: str, keep_open: tuple[int, ...] = ()) -> None:
        with self._account.reach(self._folder.data) as (path, fds):
            program = self._binaries.program("pg_ctl")
            wait_options = ["-w", "-t", str(START_STOP_TIMEOUT_S), "-s"]
            paths = ["-l", f"{path}/{START_LOG}", "-D", str(path)]
            run = self._account.run(
                [program, verb, *wait_options, *options, *paths], keep_open=fds + keep_open
            )
        if run.returncode != 0:
            raise EmbeddedError(
                f"The Postgres in {self._folder.path} did not {verb}. "
                f"{describe_last_log_error(self._folder.data)}"
            )

    def _refuse_other_major(self) -> None:
        if self._folder.major not in (None, self._binaries.major):
            raise EmbeddedError(
                f"The database in {self._folder.path} was made by Postgres {self._folder.major}, "
                f"but the binaries in {self._binaries.bin_dir} are Postgres "
                f"{self._binaries.version}. Use binaries of version {self._folder.major} to dump "
                "what you need, or name a new folder with PENSTOCK_DATA_DIR or --data-dir."
            )

    def _refuse_other_socket(self, running: postmaster.Postmaster) -> None:
        if running.socket_dir not in (None, self._endpoint.path):
            raise EmbeddedError(
                f"A Postgres that Penstock did not start (process {running.pid}) runs on "
                f"{self._folder.data}. Stop it with pg_ctl and try again."
            )
