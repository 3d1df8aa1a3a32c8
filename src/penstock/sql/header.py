"""What the file of an SQL function says of its parameters and of what comes back."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADER = re.compile(
    r'CREATE FUNCTION :"schema"\.(?P<name>\w+)\((?P<parameters>.*?)\)\s+RETURNS (?P<returns>.*?)\s'
    r"LANGUAGE ",
    re.DOTALL,
)
_PARAMETER = re.compile(r"\b(p_\w+) ([a-z]+(?: [a-z]+)*(?:\[\])?)")
_COLUMN = re.compile(r"(?:^|,)\s*(\w+) ")
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
    columns: tuple[str, ...]  # of a table; of a single value none

    def call(self) -> str:
        """The statement that calls it: `$1`, `$2`, … are its parameters, without the time."""
        given = [each for each in self.parameters if each.name != _OF_TESTS]
        places = ", ".join(f"{each.name} => {_place(at, each)}" for at, each in enumerate(given, 1))
        called = f':"schema".{self.name}({places})'
        return (
            f"SELECT {', '.join(self.columns)} FROM {called};"
            if self.columns
            else f"SELECT {called};"
        )


def read_header(text: str) -> Header:
    """The signature in the text of a file."""
    found = _HEADER.search(text)
    if found is None:
        raise ValueError(f"No signature in: {text[:200]}")
    returns = found["returns"]
    table = returns.removeprefix("TABLE (") if returns.startswith("TABLE (") else ""
    parameters = _PARAMETER.findall(found["parameters"])
    return Header(
        found["name"],
        tuple(Parameter(*each) for each in parameters),
        tuple(_COLUMN.findall(table)),
    )


def _place(at: int, parameter: Parameter) -> str:
    # As text: drivers differ in what they make of JSON.
    return f"${at}::text::jsonb" if parameter.type == "jsonb" else f"${at}::{parameter.type}"
