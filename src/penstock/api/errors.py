"""Turn a problem in a response into the exception that the app itself would raise."""

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
    """The body of an error. The response of a proxy in between may lack fields."""

    type: str = ""
    title: str = ""
    detail: str = ""
    fields: list[_Misfit] = []
    about: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        return self.type.removeprefix(URN)


def problem_of(body: bytes) -> Problem:
    """Decode the problem in a body. Returns an empty Problem if the body contains none."""
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Problem()


def error_of(status: int, body: bytes) -> PenstockError:
    """Return Penstock's exception that the problem names, or RequestRefused if there is none."""
    problem = problem_of(body)
    kind = _ERRORS.get(problem.kind)
    if kind is None or problem.about is None:
        fields = {each.field: each.problem for each in problem.fields}
        return RequestRefused(status, problem.kind, problem.detail or problem.title, fields)
    # Its constructor is not called, because the service has written the message already.
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
    """Turn `JobNotFound` into `job-not-found`."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip("-")


_ERRORS: Final = _errors_by_slug(PenstockError)
