"""Problems that the service tells of, as the errors that the engine's own calls raise."""

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
    """What an answer says of an error; one of a proxy in between may say less."""

    type: str = ""
    title: str = ""
    detail: str = ""
    fields: list[_Misfit] = []
    about: dict[str, Any] | None = None

    @property
    def kind(self) -> str:
        return self.type.removeprefix(URN)


def problem_of(body: bytes) -> Problem:
    """The problem that a body holds; an empty one if it holds none."""
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Problem()


def error_of(status: int, body: bytes) -> PenstockError:
    """The error by its own name, if it is one of ours; else that the request was refused."""
    found = problem_of(body)
    kind = _KINDS.get(found.kind)
    if kind is None or found.about is None:
        fields = {each.field: each.problem for each in found.fields}
        return RequestRefused(status, found.kind, found.detail or found.title, fields)
    # Not by its constructor: the message was written where the cause was known.
    error = kind.__new__(kind, found.detail)
    error.__dict__.update(found.about)
    return error


def _kinds(kind: type[PenstockError]) -> dict[str, type[PenstockError]]:
    found = {_told(kind.__name__): kind}
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            found |= _kinds(each)
    return found


def _told(name: str) -> str:
    """`JobNotFound` as `job-not-found`."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip("-")


_KINDS: Final = _kinds(PenstockError)
