"""A result is stored whatever it is: a settle never fails for its content."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from penstock.tasks import encode_result
from penstock.tasks.payload import REPR_LIMIT


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


class Named:
    def __repr__(self) -> str:
        return "<Named \0>"


class Page(BaseModel):
    title: str


@dataclass
class Point:
    x: Any
    y: float = 0.0


def circular() -> list[Any]:
    value: list[Any] = ["\ud800"]
    value += [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        ({"pages": [1, 2.5, True, "x"]}, {"pages": [1, 2.5, True, "x"]}),
        ("a\0b", "a\ufffdb"),
        (r"\u0000", r"\u0000"),
        ("\\\0", "\\\ufffd"),
        ("a\ud800b", "a\ufffdb"),
        ({"\ud800": {"\0": "\ud800"}}, {"\ufffd": {"\ufffd": "\ufffd"}}),
        ([math.nan, math.inf, 1], [None, None, 1]),
        ({1: "x"}, {"1": "x"}),
        ({(1, 2): "x"}, {"(1, 2)": "x"}),
        (Named(), "<Named \ufffd>"),
        ([Named(), "\ud800"], ["<Named \ufffd>", "\ufffd"]),
        (Unprintable(), "<Unprintable, whose repr raised RuntimeError>"),
        (Point(1), {"x": 1, "y": 0.0}),
        (Point("\ud800"), {"x": "\ufffd", "y": 0.0}),
        (Page(title="a\0"), {"title": "a\ufffd"}),
        ({1, 2}, [1, 2]),
        (b"x", "eA=="),
    ],
    ids=[str(number) for number in range(18)],
)
def test_what_cannot_be_stored_is_replaced(value: Any, stored: Any) -> None:
    assert msgspec.json.decode(encode_result(value)) == stored


def test_a_value_that_contains_itself_is_stored_as_its_repr() -> None:
    assert "[...]" in msgspec.json.decode(encode_result(circular()))


def test_a_value_that_is_too_deep_is_stored_all_the_same() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert "whose repr raised RecursionError" in encode_result(value)


def test_an_integer_that_is_too_long_is_cut() -> None:
    assert encode_result(10**5000).startswith('"0x')
    assert len(encode_result(10**5000)) < 2 * REPR_LIMIT


def test_a_long_repr_is_cut() -> None:
    class Long:
        def __repr__(self) -> str:
            return "x" * 10**6

    assert len(encode_result(Long())) < 2 * REPR_LIMIT


def test_a_result_that_is_too_large_is_replaced_by_its_size() -> None:
    assert msgspec.json.decode(encode_result("x" * 100, limit=50)) == {
        "$too_large": {"bytes": 102, "limit": 50}
    }
    assert len(encode_result("x" * 2**21)) < 100


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner)
    ),
    max_leaves=20,
)


@given(anything)
def test_any_result_becomes_json_that_postgres_can_store(value: Any) -> None:
    text = encode_result(value)
    text.encode()
    assert not holds_nul(msgspec.json.decode(text))


def holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case list():
            return any(map(holds_nul, value))
        case dict():
            return any(map(holds_nul, value)) or any(map(holds_nul, value.values()))
    return False
