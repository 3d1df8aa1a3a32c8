"""Run the watcher of a server: `python -m penstock.embedded <data folder> <bin folder>`."""

import sys
from contextlib import suppress
from pathlib import Path

from penstock.embedded.folder import Folder
from penstock.embedded.install import Binaries
from penstock.embedded.watcher import watch
from penstock.errors import EmbeddedError

# If the folder has been removed, there is nothing to do: Postgres notices and ends by itself.
with suppress(EmbeddedError, FileNotFoundError):
    watch(Folder(sys.argv[1]), Binaries(Path(sys.argv[2])))
