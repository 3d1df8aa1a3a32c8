"""Log lines on stderr: text for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

LOG_PANEL = "Logs"

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    text = "text"
    json = "json"


class LogLevel(StrEnum):
    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


@dataclass(frozen=True)
class LogOptions:
    """The format and level of the process's log."""

    log_format: Annotated[LogFormat, typer.Option(rich_help_panel=LOG_PANEL)] = LogFormat.text
    log_level: Annotated[LogLevel, typer.Option(rich_help_panel=LOG_PANEL)] = LogLevel.info

    def to_stderr(self) -> None:
        """Send all log lines of this process to stderr."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines() if self.log_format is LogFormat.json else TextLines())
        logging.basicConfig(handlers=[handler], level=self.log_level.upper(), force=True)


class TextLines(logging.Formatter):
    """Formats a record as `2026-07-18 09:30:00.123 INFO 4711 penstock.worker: …`, in local time."""

    default_msec_format = "%s.%03d"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s")


class JsonLines(logging.Formatter):
    """Formats a record as JSON with all of its fields, such as job_id, task and queue."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD_FIELDS:
                fields.setdefault(name, value)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)
