"""An exception as text, and whether to try again after it."""

import traceback
from collections.abc import Collection
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
