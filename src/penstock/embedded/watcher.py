"""Run a small process beside the server, which stops the server if the last holder was killed.

The last holder normally stops the server itself. If it is killed, the watcher does so. The watcher
sleeps in the kernel until a holder's lock is free, so it never polls. A server has at most one
watcher, and can also run without one.
"""

import os
import subprocess
import sys
from pathlib import Path

from penstock.embedded.cluster import Cluster
from penstock.embedded.folder import Folder, LockedFile
from penstock.embedded.install import Binaries


def spawn(folder: Folder, binaries: Binaries) -> None:
    """Start the watcher, unless it runs already or the server is to outlive its holders."""
    # In a frozen application sys.executable is not Python but the application itself.
    if folder.is_persistent or folder.is_watched() or getattr(sys, "frozen", False):
        return
    package_parent = Path(__file__).parents[2]
    path = os.pathsep.join([str(package_parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    arguments = [str(folder.path), str(binaries.bin_dir)]
    command = [sys.executable, "-P", "-m", "penstock.embedded", *arguments]
    # The shell ends at once, so the watcher is no child of this process, which need not reap it.
    subprocess.run(
        ["/bin/sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *command],
        cwd="/",
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
        check=False,
    )


def watch(folder: Folder, binaries: Binaries) -> None:
    """Wait until there are no holders, and stop the server if it is still running.

    A server that is to run without holders is not stopped. Return at once if another watcher is
    running.
    """
    lock = LockedFile(folder.watcher)
    if not lock.try_lock():
        return
    while True:
        with folder.lock():
            if folder.is_persistent or not folder.holders.pids():
                Cluster(folder, binaries).stop_if_unused()
                # This happens under the folder's lock, so that the next holder sees that it has
                # to start a watcher.
                lock.close()
                return
        folder.holders.wait_for_one()
