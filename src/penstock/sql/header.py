"""What the file of an SQL function says of its parameters and of what comes back."""

from __future__ import annotations

import re
from typing import NamedTuple

_COMMENT = re.compile(r"--.*")
_HEADER = re.compile(
    r'CREATE FUNCTION :"schema"\.(?P<name>\w+)\((?P<parameters>.*?)\)'
    r"(?:\s+RETURNS (?P<returns>.*?))?\s+LANGUAGE ",
    re.DOTALL,
)
_PARAMETER = re.compile(r"\b(p_\w+)\s+([a-z]+(?: [a-z]+)*(?:\[\])?)")
_OUT = re.compile(r"\bOUT (\w+) ")
_COLUMN = re.compile(r'(?:^|,)\s*("?\w+"?) ')
# Only tests say what time it is; the database owns it.
_OF_TESTS = "p_now"


class Parameter(NamedTuple):
    """One of a function, with its type."""

    name: str
    type: str


class Header(NamedTuple):
    """The signature of a function."""

    name: str
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...]  # of a row; of a single value none

    def call(self, *, casts: bool = True) -> str:
        """The statement that calls it: `$1`, `$2`, … are its parameters, without the time.

        Without casts the driver asks Postgres for their types.
        """
        given = [each for each in self.parameters if each.name != _OF_TESTS]
        places = ", ".join(
            f"{each.name} => {_place(at, each) if casts else f'${at}'}"
            for at, each in enumerate(given, 1)
        )
        called = f':"schema".{self.name}({places})'
        return (
            f"SELECT {', '.join(self.columns)} FROM {called};"
            if self.columns
            else f"SELECT {called};"
        )


def read_header(text: str) -> Header:
    """The signature in the text of a file."""
    found = _HEADER.search(_COMMENT.sub("", text))
    if found is None:
        raise ValueError(f"No signature in: {text[:200]}")
    returns = found["returns"] or ""
    table = returns.removeprefix("TABLE (") if returns.startswith("TABLE (") else ""
    parameters = _PARAMETER.findall(found["parameters"])
    return Header(
        found["name"],
        tuple(Parameter(*each) for each in parameters),
        tuple(_COLUMN.findall(table) or _OUT.findall(found["parameters"])),
    )


def _place(at: int, parameter: Parameter) -> str:
    # As text: drivers differ in what they make of JSON.
    return f"${at}::text::jsonb" if parameter.type == "jsonb" else f"${at}::{parameter.type}"
