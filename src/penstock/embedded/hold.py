"""A hold on the server: as long as there is one, it runs."""

import atexit
import os
from collections.abc import Callable

from penstock.embedded.locked_file import LockedFile


class Hold:
    """Release it when the server is no longer needed; the end of the process does so as well."""

    def __init__(self, url: str, mark: LockedFile, leave: Callable[[LockedFile], None]) -> None:
        self.url = url
        self._mark = mark
        self._leave = leave
        self._pid = os.getpid()
        self._released = False
        atexit.register(self.release)

    def release(self) -> None:
        """Let go, once; the last one to do so stops the server."""
        # A child of a fork has this object too, but the hold is its parent's.
        if self._released or self._pid != os.getpid():
            return
        self._released = True
        atexit.unregister(self.release)
        self._leave(self._mark)

    def outlive_exec(self) -> None:
        """Hand the hold to the program that is about to replace this one."""
        self._mark.outlive_exec()
