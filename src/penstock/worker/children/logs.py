"""Sends a child's log records to the worker, whose handlers write them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from penstock.worker.children.channel import Channel
from penstock.worker.children.messages import Logged

_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
}
_PLAIN_TYPES: Final = (float, bool, type(None))
_MAX_INT: Final = 2**63


class Sender(logging.Handler):
    """Sends each log record as text, with its arguments and traceback already formatted."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._channel.send(
                Logged(
                    _replace_invalid(record.name),
                    record.levelno,
                    _replace_invalid(self.format(record)),
                    record.created,
                    _replace_invalid(record.pathname),
                    record.lineno,
                    record.funcName or "",
                    _fields(record),
                )
            )
        except OSError:
            pass  # The worker is gone, and this process with it.
        except Exception:
            self.handleError(record)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {
        _replace_invalid(name): value if _is_plain(value) else _replace_invalid(str(value))
        for name, value in vars(record).items()
        if name not in _STANDARD_FIELDS
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN_TYPES) or (isinstance(value, int) and abs(value) < _MAX_INT)


def _replace_invalid(text: str) -> str:
    """Replace characters that UTF-8 cannot encode, as names of files may have."""
    return text.encode(errors="replace").decode()


def send_logs_to_worker(channel: Channel, level: int) -> None:
    """Send all that this process logs to the worker, and to no handler here."""
    root = logging.getLogger()
    for logger in root.manager.loggerDict.values():
        # A logger that has its own handlers has them in the worker, too.
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
    root.handlers[:] = [Sender(channel)]
    root.setLevel(level)


def write_record(message: Logged) -> None:
    """Handle a child's log record in the worker, as if it had been logged here."""
    logger = logging.getLogger(message.logger)
    if logger.isEnabledFor(message.level):
        record = logging.makeLogRecord(
            {
                **message.fields,
                "name": message.logger,
                "levelno": message.level,
                "levelname": logging.getLevelName(message.level),
                "msg": message.text,
                "created": message.created,
                "msecs": message.created % 1 * 1000,
                "pathname": message.path,
                "filename": Path(message.path).name,
                "module": Path(message.path).stem,
                "lineno": message.line,
                "funcName": message.function,
            }
        )
        logger.handle(record)
