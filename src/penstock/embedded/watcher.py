"""A small process beside the server that stops it when all its holders have been killed.

The last holder stops the server itself, but a process that is killed cannot, and if that was the
last one, nobody would be left. The watcher sleeps in the kernel until a holder's lock is free;
it never polls. There is at most one for a server, and the server does not need it to run.
"""

import os
import subprocess
import sys
from pathlib import Path

from penstock.embedded.cluster import Cluster
from penstock.embedded.folder import Folder, LockedFile
from penstock.embedded.install import Binaries


def spawn(folder: Folder, binaries: Binaries) -> None:
    """Start the watcher, unless there is one or the server shall outlive its holders anyway."""
    # In a frozen application sys.executable is not Python but the application itself.
    if folder.kept or folder.is_watched() or getattr(sys, "frozen", False):
        return
    package_parent = Path(__file__).parents[2]
    path = os.pathsep.join([str(package_parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    places = [str(folder.path), str(binaries.bin_dir)]
    command = [sys.executable, "-P", "-m", "penstock.embedded", *places]
    # The shell leaves at once: the watcher is nobody's child, so nobody has to reap it.
    subprocess.run(
        ["/bin/sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *command],
        cwd="/",
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
        check=False,
    )


def watch(folder: Folder, binaries: Binaries) -> None:
    """Wait for one holder after the other, then stop the server unless the last one did."""
    seat = LockedFile(folder.watcher)
    if not seat.try_lock():
        return
    while True:
        with folder.lock():
            if folder.kept or not folder.holders.pids():
                Cluster(folder, binaries).stop_if_unused()
                seat.close()  # still under the lock: the next holder knows that it needs a watcher
                return
        folder.holders.wait_for_one()
