"""Logs of JSON lines that many processes append to, and that survive the death of any of them."""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

# A time-out or a lost connection is `info`: it may have happened.
Outcome = Literal["invoke", "ok", "fail", "info"]


class Lines:
    """One append-only file. A line is written whole, by one system call, before `write` returns."""

    def __init__(self, path: Path, process: str) -> None:
        self._path = path
        self._process = process

    def write(self, operation: str, outcome: Outcome = "ok", **fields: Any) -> None:
        self.write_all(operation, outcome, [fields])

    def write_all(self, operation: str, outcome: Outcome, each: Iterable[dict[str, Any]]) -> None:
        head = {
            "at": time.monotonic(),
            "process": self._process,
            "operation": operation,
            "outcome": outcome,
        }
        text = "".join(json.dumps(head | fields, default=str) + "\n" for fields in each)
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)


def read(path: Path) -> list[dict[str, Any]]:
    """All lines in the order of the file, which is the order in which they were written."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]
