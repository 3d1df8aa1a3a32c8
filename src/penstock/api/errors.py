"""Errors of the API: a problem in an answer becomes the error that the app itself would raise."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock import errors
from penstock.errors import PenstockError, RequestRefused

URN: Final = "urn:penstock:"


class _Misfit(Struct, frozen=True):
    field: str = ""
    problem: str = ""


class Problem(Struct, frozen=True):
    """The body of an error. The answer of a proxy in between may leave fields out."""

    type: str = ""
    title: str = ""
    detail: str = ""
    fields: list[_Misfit] = []
    about: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        return self.type.removeprefix(URN)


def problem_of(body: bytes) -> Problem:
    """Decode the problem in a body; an empty one if the body holds none."""
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Problem()


def error_of(status: int, body: bytes) -> PenstockError:
    """The error class that the problem names, if Penstock has one; else RequestRefused."""
    problem = problem_of(body)
    kind = _ERRORS.get(problem.kind)
    if kind is None or problem.about is None:
        fields = {each.field: each.problem for each in problem.fields}
        return RequestRefused(status, problem.kind, problem.detail or problem.title, fields)
    # Its constructor is not called: the service has written the message, with details it knew.
    error = kind.__new__(kind, problem.detail)
    error.__dict__.update(problem.about)
    return error


def _errors_by_slug(kind: type[PenstockError]) -> dict[str, type[PenstockError]]:
    errors_by_slug = {_slug(kind.__name__): kind}
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            errors_by_slug |= _errors_by_slug(each)
    return errors_by_slug


def _slug(name: str) -> str:
    """`JobNotFound` as `job-not-errors_by_slug`."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip("-")


_ERRORS: Final = _errors_by_slug(PenstockError)
