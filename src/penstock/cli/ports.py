"""Which process has a port: for the message that it is taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LISTENS = "0A"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def holder_of(port: int) -> str | None:
    """`python (process 4711)`; None where it cannot be seen, as for another user's process."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in Path("/proc").glob("[0-9]*") if sockets else ():
        try:
            if any(str(file.readlink()) in sockets for file in (folder / "fd").iterdir()):
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
        except OSError:
            continue  # It has ended, or is somebody else's.
    return None


def _inodes(port: int) -> Iterator[str]:
    """The sockets that listen on a port, as the kernel numbers them."""
    for table in _TABLES:
        if not os.access(table, os.R_OK):
            continue
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]
