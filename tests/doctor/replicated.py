"""A Postgres of one's own with a standby: what the shared test server cannot be made to do."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.embedded import Server
from penstock.embedded.folder import Folder
from tests.fixtures.server import BINARIES

SLOT = "standby_slot"


class Replicated:
    """A primary, and a standby that tells it what its readers still need."""

    def __init__(self, folder: Path) -> None:
        binaries = os.environ.get(BINARIES) or None
        self._standby_folder = folder / "standby"
        self.primary = Server(folder / "primary", bin_dir=binaries)
        self.standby = Server(self._standby_folder, bin_dir=binaries)

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            self._start_primary()
            self._copy()
            self.standby.start()
            yield
        finally:
            for server in (self.standby, self.primary):
                server.stop("immediate")

    def _start_primary(self) -> None:
        self.primary.start()
        self.primary.stop()
        _append(self.primary, "postgresql.conf", "max_prepared_transactions = 2\n")
        _append(self.primary, "pg_hba.conf", "local replication all trust\n")
        self.primary.start()

    def _copy(self) -> None:
        Folder(self._standby_folder).prepare()
        subprocess.run(
            [
                self.primary.binaries().program("pg_basebackup"),
                *("--dbname", self.primary.admin_url(), "--checkpoint", "fast"),
                *("--pgdata", self._standby_folder / "postgres"),
                *("--write-recovery-conf", "--create-slot", "--slot", SLOT),
            ],
            check=True,
            capture_output=True,
        )
        _append(
            self.standby,
            "postgresql.auto.conf",
            "hot_standby_feedback = on\nwal_receiver_status_interval = 1\n",
        )


def _append(server: Server, name: str, text: str) -> None:
    with (server.data_dir / "postgres" / name).open("a") as settings:
        settings.write(text)
