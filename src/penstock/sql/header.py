"""Read the signature of an SQL function from its file."""

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
# Only tests set the time. Otherwise it is the database's.
_TIME_PARAMETER = "p_now"


class Parameter(NamedTuple):
    """A parameter of a function, with its type."""

    name: str
    type: str


class Header(NamedTuple):
    """The signature of a function."""

    name: str
    parameters: tuple[Parameter, ...]
    columns: tuple[str, ...]  # Empty if the function returns a single value.

    def call(self, *, casts: bool = True) -> str:
        """Return the statement that calls the function, with `$1`, `$2`, … as its parameters.

        The parameter `p_now` is left out. If `casts` is false, the driver has to ask Postgres for
        the types.
        """
        parameters = [one for one in self.parameters if one.name != _TIME_PARAMETER]
        arguments = ", ".join(
            f"{parameter.name} => {_placeholder(at, parameter) if casts else f'${at}'}"
            for at, parameter in enumerate(parameters, 1)
        )
        called = f':"schema".{self.name}({arguments})'
        return (
            f"SELECT {', '.join(self.columns)} FROM {called};"
            if self.columns
            else f"SELECT {called};"
        )


def read_header(text: str) -> Header:
    """Return the signature in the text of a file. Raises ValueError if there is none."""
    match = _HEADER.search(_COMMENT.sub("", text))
    if match is None:
        raise ValueError(f"There is no function signature in: {text[:200]}")
    returns = match["returns"] or ""
    table = returns.removeprefix("TABLE (") if returns.startswith("TABLE (") else ""
    parameters = _PARAMETER.findall(match["parameters"])
    return Header(
        match["name"],
        tuple(Parameter(*parameter) for parameter in parameters),
        tuple(_COLUMN.findall(table) or _OUT.findall(match["parameters"])),
    )


def _placeholder(at: int, parameter: Parameter) -> str:
    # JSON is sent as text, because drivers encode it in different ways.
    return f"${at}::text::jsonb" if parameter.type == "jsonb" else f"${at}::{parameter.type}"
