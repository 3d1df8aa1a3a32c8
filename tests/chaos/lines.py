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


class Reader:
    """Reads a log that is still being written, each line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """All lines so far, in the order in which they were written."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
            self._offset += len(whole) + len(newline)
            self._lines += [json.loads(line) for line in whole.splitlines()]
        return self._lines
