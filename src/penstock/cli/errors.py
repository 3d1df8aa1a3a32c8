"""What goes wrong in commands alone; the name of each is its kind in JSON.

CommandError                 it cannot be done; the message says why
├── NoDatabase               none is named, and there is no embedded one
├── DatabaseUnreachable      no connection: no such host, nobody listens, or it broke
├── DatabaseRefused          the database answers, and says no
│   ├── AccessDenied         not with this role, or this password
│   └── DatabaseMissing      the server has no database of this name
├── ExtraMissing             a part of Penstock that is not installed
├── CannotListen             the address or the port cannot be had
│   └── PortTaken            another process has it
├── SettingNotFound          nothing of the kind is set
├── NotFound                 nothing of an application has this name or id
├── LineRefused              a line of standard input is no job
├── OutputLost               standard output cannot be written to
├── Unexpected               an error that no command knows of
├── Unfinished               it stopped midway, for the reason that is its cause
└── Interrupted              by Ctrl-C
"""

from __future__ import annotations

import re
from typing import Any

from penstock.errors import PenstockError
from penstock.wording import how_to_install


class CommandError(PenstockError):
    """A command cannot do what it was asked; the message says why.

    `details` are for programs: they are in the JSON document beside the message.
    """

    def __init__(self, message: str, **details: Any) -> None:
        self.details = details
        super().__init__(message)


class NoDatabase(CommandError):
    """None is named, and there is no embedded one."""


class DatabaseUnreachable(CommandError):
    """There is no connection to the database."""


class DatabaseRefused(CommandError):
    """The database answers, and says no."""


class AccessDenied(DatabaseRefused):
    """The database does not let the role in."""


class DatabaseMissing(DatabaseRefused):
    """The server has no database of this name."""


class ExtraMissing(CommandError):
    """A part of Penstock whose packages are not installed."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(
            f"This needs the package {package}, which is not installed: {how_to_install(extra)}.",
            extra=extra,
            package=package,
        )


class CannotListen(CommandError):
    """The address, or the port, cannot be had."""


class PortTaken(CannotListen):
    """Another process has the port."""


class SettingNotFound(CommandError):
    """Nothing of the kind is set."""


class NotFound(CommandError):
    """Nothing of an application has this name or id; the message says what there is."""


class LineRefused(CommandError):
    """A line of standard input is no job."""

    def __init__(self, number: int, why: Exception) -> None:
        super().__init__(f"Line {number}: {why}", line=number)


class OutputLost(CommandError):
    """Standard output cannot be written to."""


class Unexpected(CommandError):
    """An error that no command knows of."""

    def __init__(self, error: BaseException) -> None:
        said = f": {error}" if str(error) else ""
        super().__init__(
            f"Penstock did not expect this: {type(error).__name__}{said}. "
            "PENSTOCK_TRACEBACK=1 shows where it came from."
        )


class Unfinished(CommandError):
    """It stopped midway; its cause says why, and the details what had been done by then."""


class Interrupted(CommandError):
    """Ctrl-C; what is said tells what goes on regardless. `at_once`: twice, so nobody waits."""

    def __init__(self, message: str, *, at_once: bool = False, **details: Any) -> None:
        self.at_once = at_once
        super().__init__(message, **details)


def kind_of(error: PenstockError) -> str:
    """The word by which programs tell errors apart: `job_not_found`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(reason_of(error)).__name__).lower()


def details_of(error: PenstockError) -> dict[str, Any]:
    """What programs want to know beside the message, such as the id of what it is about."""
    reason = reason_of(error)
    ids = (getattr(reason, name, None) for name in ("job_id", "batch_id", "workflow_id"))
    id = next(filter(None, ids), None)
    about = {} if id is None else {"id": id}
    return about | getattr(reason, "details", {}) | getattr(error, "details", {})


def reason_of(error: PenstockError) -> PenstockError:
    """The error that says why: of what stopped midway, its cause."""
    if isinstance(error, Unfinished) and isinstance(error.__cause__, PenstockError):
        return error.__cause__
    return error
