"""JSON as its standard has it: what readers understand in different ways is refused."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from penstock.service.problem import Problem


def expect_json(body: bytes | bytearray) -> None:
    """A Problem says what is wrong: broken, no UTF-8, a key twice, NaN, half a character."""
    try:
        value = json.loads(
            body.decode(), object_pairs_hook=_once_each, parse_constant=_is_no_number
        )
        if b"\\u" in body:
            _expect_whole_characters(value)
    except UnicodeDecodeError as error:
        raise _broken(f"The body is not UTF-8: see byte {error.start}.") from error
    except RecursionError as error:
        raise _broken("The body is nested too deep.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _broken(f"The body is not JSON: {error.msg}, {where}.") from error
    except ValueError as error:
        raise _broken(f"The body is not JSON as we take it: {error}.") from error


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:80]!a} is there twice")
        found[name] = value
    return found


def _is_no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _expect_whole_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair stands alone") from error


def _broken(told: str) -> Problem:
    return Problem(400, "broken-json", told)
