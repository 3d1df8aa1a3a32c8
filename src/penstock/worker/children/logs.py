"""Log lines of a child process on their way to the worker, whose handlers write them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from penstock.worker.children.channel import Channel
from penstock.worker.children.messages import Logged

_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN: Final = (float, bool, type(None))
_LARGEST: Final = 2**63


class Sender(logging.Handler):
    """Sends each record, its arguments and its traceback put into its text."""

    def __init__(self, line: Channel) -> None:
        super().__init__()
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._line.send(
                Logged(
                    _text(record.name),
                    record.levelno,
                    _text(self.format(record)),
                    record.created,
                    _text(record.pathname),
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
        _text(name): value if _is_plain(value) else _text(str(value))
        for name, value in vars(record).items()
        if name not in _RECORD
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, int) and abs(value) < _LARGEST)


def _text(text: str) -> str:
    """As it can be sent: names of files may hold what is no text."""
    return text.encode(errors="replace").decode()


def send_all(line: Channel, level: int) -> None:
    """From now on the worker's handlers write what this process logs, and no others."""
    root = logging.getLogger()
    for logger in root.manager.loggerDict.values():
        # One that has handlers of its own has them in the worker, too.
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
    root.handlers[:] = [Sender(line)]
    root.setLevel(level)


def write(logged: Logged) -> None:
    """In the worker: write a line of a child as if it were logged here."""
    logger = logging.getLogger(logged.logger)
    if logger.isEnabledFor(logged.level):
        record = logging.makeLogRecord(
            {
                **logged.fields,
                "name": logged.logger,
                "levelno": logged.level,
                "levelname": logging.getLevelName(logged.level),
                "msg": logged.text,
                "created": logged.created,
                "msecs": logged.created % 1 * 1000,
                "pathname": logged.path,
                "filename": Path(logged.path).name,
                "module": Path(logged.path).stem,
                "lineno": logged.line,
                "funcName": logged.function,
            }
        )
        logger.handle(record)
