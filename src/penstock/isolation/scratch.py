"""Files that live in memory where that is possible, and have no name."""

from __future__ import annotations

import os
import tempfile
from typing import IO


def scratch() -> IO[bytes]:
    """A new file, gone when the last process that has it open closes it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("penstock"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
