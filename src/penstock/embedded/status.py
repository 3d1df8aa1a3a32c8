"""What is known about an embedded server at one moment."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Status:
    running: bool
    pid: int | None
    version: str
    """The version of the Postgres binaries, such as "18.4"."""
    data_dir: Path
    socket_dir: Path | None
    """Where the server listens; None as long as the data folder does not exist."""
    holders: tuple[int, ...]
    """The process id behind each hold; a process with two holds is here twice."""
    persistent: bool
    """Started by `start()`: it outlives its holders until `stop()`."""
