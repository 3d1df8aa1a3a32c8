"""The embedded Postgres server, which all its holders share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from penstock.embedded import postmaster, watcher
from penstock.embedded.cluster import Cluster, Status
from penstock.embedded.folder import Folder, Hold, LockedFile
from penstock.embedded.install import Binaries, Endpoint


class Server:
    """A Postgres server in a folder of your project.

        with Server().hold() as url:
            ...

    The folder is `data_dir`, else PENSTOCK_DATA_DIR, else `.penstock` in the current folder.
    Any number of threads and processes may hold the server. The first one starts it, and the last
    one stops it; a process that is killed no longer holds it. Pass `bin_dir` to use the programs of
    another Postgres than the one that is installed with Penstock.
    """

    def __init__(
        self, data_dir: Path | str | None = None, *, bin_dir: Path | str | None = None
    ) -> None:
        self._folder = Folder(data_dir)
        self._bin_dir = Path(bin_dir).resolve() if bin_dir is not None else None

    @property
    def data_dir(self) -> Path:
        return self._folder.path

    @contextmanager
    def hold(self) -> Iterator[str]:
        """Keep the server running during a `with` block, and yield the application's URL."""
        hold = self.acquire()
        try:
            yield hold.url
        finally:
            hold.release()

    def acquire(self) -> Hold:
        """Keep the server running until the hold is released or this process ends."""
        binaries = self.binaries()
        self._folder.prepare()
        with self._folder.lock():
            file = self._folder.holders.register()
            try:
                # The watcher starts first, because this process may be killed while the server
                # starts.
                watcher.spawn(self._folder, binaries)
                Cluster(self._folder, binaries).ensure()
            except BaseException:
                file.path.unlink()
                file.close()
                raise
        return Hold(self.url(), file, self._release)

    def start(self) -> None:
        """Start the server, and keep it running until `stop()`, even without holders."""
        binaries = self.binaries()
        self._folder.prepare()
        with self._folder.lock():
            Cluster(self._folder, binaries).ensure()
            self._folder.set_persistent()

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop the server and close all connections, even if it has holders.

        The mode "immediate" does not wait for a checkpoint. The next start then recovers from the
        write-ahead log.
        """
        if not self._folder.exists():
            return
        self._folder.prepare()
        with self._folder.lock():
            self._folder.clear_persistent()
            Cluster(self._folder, self.binaries()).stop(mode)

    def status(self) -> Status:
        exists = self._folder.exists()
        running = postmaster.find(self._folder.data, self._folder.name) if exists else None
        return Status(
            running=running is not None,
            pid=running.pid if running else None,
            version=self.binaries().version,
            data_dir=self.data_dir,
            socket_dir=self._endpoint.path if exists else None,
            holders=self._folder.holders.pids(),
            persistent=self._folder.is_persistent,
        )

    def url(self) -> str:
        """Return the URL for the application, whose role owns the database but is no superuser."""
        return self._endpoint.url("penstock", "penstock")

    def admin_url(self) -> str:
        """Return the URL for a superuser, who may create roles, databases and extensions."""
        return self._endpoint.url("postgres", "postgres")

    def binaries(self) -> Binaries:
        return Binaries.find(self._bin_dir)

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(self._folder.name)

    def _release(self, file: LockedFile) -> None:
        if not self._folder.exists():  # There is nothing to stop once the folder is removed.
            file.close()
            return
        with self._folder.lock():
            file.path.unlink(missing_ok=True)
            file.close()
            Cluster(self._folder, self.binaries()).stop_if_unused()
