"""What a process tells the driver that fits into no message: a document in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Settings


def answer(settings: Settings, what: dict[str, Any]) -> None:
    """To be told before the first run is noted, at which the driver reads it."""
    Path(settings["answer"]).write_text(json.dumps(what))
