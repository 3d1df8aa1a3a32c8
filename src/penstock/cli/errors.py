"""Errors that only commands raise; the class name is the kind in JSON.

CommandError                 the command cannot do it; the message says why
├── NoDatabase               no database is named, and there is no embedded one
├── DatabaseUnreachable      no connection: unknown host, refused, or lost
├── DatabaseRefused          the database refused the request
│   ├── AccessDenied         the role or its password is not accepted
│   └── DatabaseMissing      the server has no database of this name
├── ExtraMissing             a part of Penstock that is not installed
├── CannotListen             the service cannot listen on the address or port
│   └── PortTaken            another process listens on it
├── SettingNotFound          there is no such setting
├── NotFound                 an application has nothing of this name or id
├── LineRefused              a line of standard input does not describe a job
├── OutputLost               standard output cannot be written to
├── Unexpected               an error that no command expects
├── Unfinished               the command stopped midway; the cause says why
└── Interrupted              the user pressed Ctrl-C
"""

from __future__ import annotations

import re
from typing import Any

from penstock.errors import PenstockError
from penstock.wording import how_to_install


class CommandError(PenstockError):
    """A command could not do what the user asked; the message says why.

    `details` are added to the JSON document of the error, for programs.
    """

    def __init__(self, message: str, **details: Any) -> None:
        self.details = details
        super().__init__(message)


class NoDatabase(CommandError):
    """No database is named, and there is no embedded one."""


class DatabaseUnreachable(CommandError):
    """There is no connection to the database."""


class DatabaseRefused(CommandError):
    """The database refused the request."""


class AccessDenied(DatabaseRefused):
    """The database does not let the role in."""


class DatabaseMissing(DatabaseRefused):
    """The server has no database of this name."""


class ExtraMissing(CommandError):
    """A part of Penstock whose packages are not installed."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(
            f"This needs the package {package}, which is not installed. Install it with "
            f"{how_to_install(extra)}.",
            extra=extra,
            package=package,
        )


class CannotListen(CommandError):
    """The service cannot listen on the address or port."""


class PortTaken(CannotListen):
    """Another process listens on the port."""


class SettingNotFound(CommandError):
    """There is no such setting."""


class NotFound(CommandError):
    """An application has nothing of this name or id; the message lists what there is."""


class LineRefused(CommandError):
    """A line of standard input does not describe a job."""

    def __init__(self, number: int, reason: Exception) -> None:
        super().__init__(f"Line {number}: {reason}", line=number)


class OutputLost(CommandError):
    """Standard output cannot be written to."""


class Unexpected(CommandError):
    """An error that commands do not expect."""

    def __init__(self, error: BaseException) -> None:
        message = f": {error}" if str(error) else ""
        super().__init__(
            f"The command failed with an unexpected error: {type(error).__name__}{message}. Run "
            "it again with PENSTOCK_TRACEBACK=1 to see the traceback."
        )


class Unfinished(CommandError):
    """The command stopped midway. `__cause__` says why, and `details` say what was done before."""


class Interrupted(CommandError):
    """The user pressed Ctrl-C; the message says what happens to unfinished work.

    With `at_once`, the process exits without waiting for threads or tasks that still run.
    """

    def __init__(self, message: str, *, at_once: bool = False, **details: Any) -> None:
        self.at_once = at_once
        super().__init__(message, **details)


def kind_of(error: PenstockError) -> str:
    """Return the kind of an error for its JSON document, such as `job_not_found`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(reason_of(error)).__name__).lower()


def details_of(error: PenstockError) -> dict[str, Any]:
    """Return the details of an error for its JSON document, such as the id of the job."""
    reason = reason_of(error)
    ids = (getattr(reason, name, None) for name in ("job_id", "batch_id", "workflow_id"))
    id = next(filter(None, ids), None)
    about = {} if id is None else {"id": id}
    return about | getattr(reason, "details", {}) | getattr(error, "details", {})


def reason_of(error: PenstockError) -> PenstockError:
    """Return the error that stopped an `Unfinished` command. Return any other error itself."""
    if isinstance(error, Unfinished) and isinstance(error.__cause__, PenstockError):
        return error.__cause__
    return error
