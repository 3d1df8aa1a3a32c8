"""An exception as text, and whether to try again after it."""

import os
import re
import sysconfig
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Final

from penstock.errors import (
    BudgetTooSmall,
    DuplicateStep,
    EventTimeout,
    NotRetryable,
    PollTimeout,
    Retryable,
    StepDoesNotFit,
    TooManySteps,
)
from penstock.job import MESSAGE_LIMIT, TRACEBACK_LIMIT, AttemptError, ErrorKind, storable

FRAMES: Final = 100
TYPE_LIMIT: Final = 200
FRAME: Final = re.compile(r'^[ |]*File "([^"\n]+)", line (\d+), in (\S+)', re.MULTILINE)
# Code that is not the user's: of Python, of installed packages, of Penstock.
FOREIGN: Final = tuple(
    f"{folder}{os.sep}"
    for folder in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).parents[1]),
    }
)
# The next attempt would only come to the same.
IN_VAIN: Final = (
    NotRetryable,
    BudgetTooSmall,
    DuplicateStep,
    StepDoesNotFit,
    TooManySteps,
    EventTimeout,
    PollTimeout,
)


def describe_error(
    error: BaseException, *, kind: ErrorKind = "failure", attempt: int = 0, worker: str = ""
) -> AttemptError:
    """Return an exception as text that can be stored. Never raises, whatever the exception does."""
    return AttemptError(
        kind=kind,
        type=storable(_type_name(type(error)), TYPE_LIMIT),
        message=storable(_message(error), MESSAGE_LIMIT),
        traceback=storable(_traceback(error), TRACEBACK_LIMIT, keep_end=True),
        attempt=attempt,
        worker=worker,
    )


def raised_at(told: str) -> str:
    """Where a traceback leads, such as "shop/jobs.py:12 in send_mail"; empty without a frame.

    This is the innermost frame of the user's own code. Where all code is installed, it is the
    innermost frame of all.
    """
    frames = FRAME.findall(told)
    own = [frame for frame in frames if not frame[0].startswith(FOREIGN)]
    if not frames:
        return ""
    [file, line, function] = (own or frames)[-1]
    return f"{_from_here(file)}:{line} in {function}"


def is_retryable(
    error: BaseException,
    retry_on: Collection[type[BaseException]] = (),
    discard_on: Collection[type[BaseException]] = (),
) -> bool:
    """Whether another attempt may help. The class nearest to the error's own decides.

    With `retry_on`, only the errors it names are tried again; those of `discard_on` never are.
    """
    for cls in type(error).__mro__:
        if cls in IN_VAIN or cls in discard_on:
            return False
        if cls is Retryable or cls in retry_on:
            return True
    return not retry_on


def _from_here(file: str) -> str:
    """The path as seen from the current folder, if it is within it."""
    try:
        return file.removeprefix(f"{Path.cwd()}{os.sep}")
    except OSError:  # The current folder was deleted.
        return file


def _type_name(cls: type) -> str:
    module = cls.__module__
    return cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"<its text could not be made: str() raised {type(failure).__name__}>"


def _traceback(error: BaseException) -> str:
    try:
        told = "".join(traceback.format_exception(error, limit=-FRAMES))
        message = _message(error)
        if len(message) > MESSAGE_LIMIT:
            # It is kept apart; here it would leave no room for where the error came from.
            told = told.replace(message, storable(message, MESSAGE_LIMIT, keep_end=True))
        return told
    except Exception as failure:
        return f"<the traceback could not be made: {type(failure).__name__}>"
