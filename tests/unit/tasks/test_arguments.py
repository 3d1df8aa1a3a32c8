"""Arguments go into a row and come out again as the handler's annotations say."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from io import StringIO
from typing import Any, Literal, NamedTuple, TextIO, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from penstock.errors import (
    ArgumentsDoNotFit,
    ConfigError,
    PayloadRefused,
    PayloadTooLarge,
)
from penstock.tasks import Task, task


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    street: str
    number: int | None = None
    others: "list[Address]" = field(default_factory=list)


class Point(msgspec.Struct, frozen=True):
    x: float
    y: Decimal


class Pair(NamedTuple):
    left: int
    right: str


class Row(TypedDict):
    id: UUID
    note: str | None


class Profile(BaseModel):
    model_config = ConfigDict(strict=True)
    name: str = Field(alias="fullName")
    born: date
    tags: set[str] = set()


# What Postgres takes: no NUL, no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
addresses = st.builds(
    Address,
    texts,
    st.none() | st.integers(),
    st.lists(st.builds(Address, texts), max_size=2),
)
moments = st.datetimes(timezones=st.just(UTC))
floats = st.floats(allow_nan=False, allow_infinity=False)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=15,
)

TYPES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(),
    float: floats,
    bool: st.booleans(),
    str: texts,
    bytes: st.binary(),
    UUID: st.uuids(),
    Decimal: decimals,
    datetime: moments,
    date: st.dates(),
    time: st.times(),
    timedelta: st.timedeltas(timedelta(-999), timedelta(999)),
    Colour: st.sampled_from(Colour),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
    int | None: st.none() | st.integers(),
    int | str | list[int]: st.integers() | texts | st.lists(st.integers()),
    list[date]: st.lists(st.dates()),
    tuple[int, str]: st.tuples(st.integers(), texts),
    set[UUID]: st.sets(st.uuids()),
    frozenset[str]: st.frozensets(texts),
    dict[str, bytes]: st.dictionaries(texts, st.binary()),
    dict[int, str | None]: st.dictionaries(st.integers(-(2**63), 2**63), st.none() | texts),
    dict[UUID, Any]: st.dictionaries(st.uuids(), json_values),
    Address: addresses,
    Point: st.builds(Point, floats, decimals),
    Pair: st.builds(Pair, st.integers(), texts),
    Row: st.fixed_dictionaries({"id": st.uuids(), "note": st.none() | texts}),
    Profile: st.builds(Profile, fullName=texts, born=st.dates(), tags=st.sets(texts)),
    list[Profile | None]: st.lists(
        st.none() | st.builds(Profile, fullName=texts, born=st.dates()), max_size=3
    ),
    Any: json_values,
    object: json_values,
    dict[str, Any]: st.dictionaries(texts, json_values),
}


def taking(kind: Any) -> Task[..., None]:
    def handler(value: Any) -> None: ...

    handler.__annotations__["value"] = kind
    made: Task[..., None] = task(handler)
    return made


def came_back(made: Task[..., Any], *args: Any, **kwargs: Any) -> Any:
    return made.decode(made.prepare(*args, **kwargs).args, 1)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_values_of_supported_types_come_back_as_they_were(kind: Any) -> None:
    made = taking(kind)

    @given(TYPES[kind])
    def check(value: Any) -> None:
        (back,), extra = came_back(made, value)
        assert back == value
        assert type(back) is type(value)
        assert extra == {}

    check()


@given(json_values)
def test_parameters_without_a_type_take_any_json(value: Any) -> None:
    @task
    def handler(value) -> None: ...  # type: ignore[no-untyped-def]

    assert came_back(handler, value) == ((value,), {})


@task
def mixed(first: int, /, second: str = "x", *, third: bool, fourth: float = 0.5) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "stored", "call"),
    [
        (
            (1,),
            {"third": True},
            {"first": 1, "third": True},
            ((1, "x"), {"third": True, "fourth": 0.5}),
        ),
        (
            (1, "y"),
            {"fourth": 2, "third": False},
            {"first": 1, "second": "y", "fourth": 2, "third": False},
            ((1, "y"), {"third": False, "fourth": 2.0}),
        ),
        (
            (1,),
            {"second": "z", "third": True},
            {"first": 1, "second": "z", "third": True},
            ((1, "z"), {"third": True, "fourth": 0.5}),
        ),
    ],
)
def test_arguments_are_stored_by_name_without_defaults(
    args: Any, kwargs: Any, stored: Any, call: Any
) -> None:
    request = mixed.prepare(*args, **kwargs)
    assert msgspec.json.decode(request.args) == stored
    assert mixed.decode(request.args, 1) == call


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"third": True}, "missing a required .*'first'"),
        ((1,), {}, "missing a required .*'third'"),
        ((1, "x", 3), {"third": True}, "too many positional"),
        ((1,), {"third": True, "fifth": 5}, "unexpected keyword argument 'fifth'"),
        ((1, "x"), {"second": "y", "third": True}, "multiple values for argument 'second'"),
        ((), {"first": 1, "third": True}, "'first'"),
    ],
)
def test_a_call_that_the_handler_would_not_take_is_a_type_error(
    args: Any, kwargs: Any, message: str
) -> None:
    with pytest.raises(
        TypeError, match=f"The task .*mixed' cannot be called like this: .*{message}"
    ):
        mixed.prepare(*args, **kwargs)


def test_a_mutable_default_is_the_functions_own() -> None:
    shared: list[int] = [1]

    @task
    def handler(numbers: list[int] = shared) -> None: ...

    (numbers,), _ = handler.decode("{}", 1)
    assert numbers is shared


@task
def keywords(first: int, **more: date) -> None: ...


def test_extra_keyword_arguments_are_stored_by_name() -> None:
    day = date(2030, 1, 1)
    assert came_back(keywords, 1, start=day, end=day) == ((1,), {"start": day, "end": day})
    assert came_back(keywords, 1) == ((1,), {})
    with pytest.raises(PayloadRefused) as caught:
        keywords.prepare(1, start=5)  # type: ignore[arg-type]
    assert caught.value.field == "start"


def test_extra_keyword_cannot_reuse_the_name_of_a_positional() -> None:
    @task
    def handler(first: int, /, **more: int) -> None: ...

    with pytest.raises(TypeError, match="two values for one argument"):
        handler.prepare(1, first=2)


def test_parameters_may_have_names_that_mean_something_elsewhere() -> None:
    @task
    def handler(self: int, cls: int, type: int, _private: int, kind: int) -> None: ...

    assert came_back(handler, 1, 2, 3, 4, 5) == ((1, 2, 3, 4, 5), {})


def test_a_task_without_parameters_takes_none() -> None:
    @task
    def handler() -> None: ...

    assert came_back(handler) == ((), {})
    with pytest.raises(ArgumentsDoNotFit):
        handler.decode('{"n": 1}', 1)


# Refused at enqueue


@task
def anything(value: Any) -> None: ...


class Opaque:
    pass


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value += [value, value]
    return value


REFUSED: list[tuple[Any, str, str]] = [
    ("a\0b", "value", "a NUL character at position 1"),
    ({"profile": {"name": "\0"}}, "value.profile.name", "NUL"),
    ([1, 2, 3, "x\0"], "value[3]", "NUL"),
    ({"odd key": ["\0"]}, "value['odd key'][0]", "NUL"),
    ({"\0": 1}, "value", "one of its keys contains a NUL"),
    (Address("\0"), "value.street", "NUL"),
    (Profile(fullName="\0", born=date(2030, 1, 1)), "value.fullName", "NUL"),
    ("\ud800", "value", "half of a surrogate pair"),
    ({"a": "ok", "b": "x\udfff"}, "value.b", "half of a surrogate pair at position 1"),
    ({"\ud800": 1}, "value", "keys .* half of a surrogate pair"),
    (Address("x", others=[Address("\ud800")]), "value.others[0].street", "surrogate"),
    (math.nan, "value", "nan is no number"),
    ([{"score": -math.inf}], "value[0].score", "-inf is no number"),
    (Point(math.nan, Decimal(1)), "value.x", "nan is no number"),
    (StringIO(), "value", "type StringIO"),
    ({"files": [Opaque()]}, "value.files[0]", "type Opaque"),
    ({1, Opaque}, "value", "JSON cannot hold|key"),
    (Address(Opaque()), "value.street", "type Opaque"),  # type: ignore[arg-type]
    (1j, "value", "type complex"),
    ({1: "x"}, "value", "key 1 is not a string"),
    ({"a": {(1, 2): 3}}, "value.a", r"key \(1, 2\) is not a string"),
    ({None: 1}, "value", "key None is not a string"),
    (10**5000, "value", "thousands of digits"),
    (nested(300), "value[0][0]", "nested more than 200 deep"),
    (nested(100_000), "value[0][0]", "nested more than 200 deep"),
    (circular(), "value[0][0]", "contains itself"),
]


@pytest.mark.parametrize(("value", "path", "problem"), REFUSED, ids=[str(n) for n in range(26)])
def test_what_postgres_cannot_store_is_refused_with_its_field(
    value: Any, path: str, problem: str
) -> None:
    with pytest.raises(PayloadRefused, match=problem) as caught:
        anything.prepare(value)
    assert caught.value.field.startswith(path)
    assert caught.value.remedy.endswith(".")


@given(json_values)
def test_accepted_arguments_contain_no_nul(value: Any) -> None:
    assert "\0" not in str(msgspec.json.decode(anything.prepare(value).args))


def test_a_backslash_before_u0000_is_no_nul() -> None:
    for text in (r"\u0000", r"\\u0000", r"C:\u0000"):
        assert came_back(anything, text) == ((text,), {})


@pytest.mark.parametrize(
    ("kind", "value"),
    [(float, math.nan), (float | None, math.inf), (list[float | None], [None, math.nan])],
)
def test_no_number_is_refused_also_where_a_type_is_given(kind: Any, value: Any) -> None:
    with pytest.raises(PayloadRefused, match="is no number in JSON"):
        taking(kind).prepare(value)


def test_typed_keys_are_restored_and_unfit_keys_refused() -> None:
    assert came_back(taking(dict[int, Any]), {1: None}) == (({1: None},), {})
    with pytest.raises(PayloadRefused, match=r"key \(1,\) is not a string"):
        taking(dict[int, Any]).prepare({(1,): 2})


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (int, "1", "value"),
        (int, None, "value"),
        (list[int], [1, "2"], "value[1]"),
        (Address, {"street": "x", "number": "one"}, "value.number"),
        (Address, {"number": 1}, "value.street"),
        (Profile, {"fullName": "x"}, "value"),
        (Colour, "green", "value"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_enqueue(kind: Any, value: Any, path: str) -> None:
    with pytest.raises(PayloadRefused, match="would not fit the task") as caught:
        taking(kind).prepare(value)
    assert caught.value.field == path


def test_oversized_arguments_are_refused_with_the_largest_field() -> None:
    @task(args_limit=1000)
    def handler(small: str, large: str) -> None: ...

    handler.prepare("x", "x" * 900)
    with pytest.raises(PayloadTooLarge, match="pass a reference") as caught:
        handler.prepare("x", "x" * 1000)
    assert (caught.value.field, caught.value.size, caught.value.limit) == ("large", 1002, 1000)
    with pytest.raises(PayloadTooLarge) as caught:
        handler.prepare("x" * 600, "x" * 600)
    assert caught.value.field == "arguments"
    with pytest.raises(PayloadTooLarge, match="limit is 1,048,576"):
        anything.prepare("x" * 2**20)


@pytest.mark.parametrize("kind", [TextIO, Callable[[], int], Opaque, list[Opaque], int | Opaque])
def test_a_type_that_cannot_come_out_of_json_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigError, match=r"handler\(value\) has .* cannot be read from JSON"):
        taking(kind).check()


def test_unreadable_annotation_raises_arguments_do_not_fit() -> None:
    with pytest.raises(ArgumentsDoNotFit, match="cannot be read from JSON"):
        taking(TextIO).decode('{"value": 1}', 1)


def test_two_models_in_a_union_are_refused_with_the_parameter() -> None:
    with pytest.raises(ConfigError, match=r"handler\(value\)"):
        taking(Address | Point).check()


# Stored arguments that no longer fit


@pytest.mark.parametrize(
    ("stored", "path", "problem"),
    [
        ('{"first": "1", "third": true}', "first", "Expected `int`"),
        ('{"third": true}', "first", "missing required field `first`"),
        ('{"first": 1, "third": true, "old": 1}', "old", "unknown field `old`"),
        ("[]", None, "Expected `object`"),
        ("{", None, "truncated"),
        ("nonsense", None, "malformed"),
        (b"\xff", None, "malformed|decode"),
        ('{"first": ' + "[" * 100_000, "first", "Expected `int`, got `array`"),
    ],
)
def test_stored_arguments_that_do_not_fit_say_where(
    stored: str | bytes, path: str | None, problem: str
) -> None:
    with pytest.raises(ArgumentsDoNotFit, match=problem) as caught:
        mixed.decode(stored, 1)
    assert caught.value.field == path


def test_a_dataclass_that_raises_makes_arguments_that_do_not_fit() -> None:
    @dataclass
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise KeyError("odd\0")

    with pytest.raises(ArgumentsDoNotFit, match="KeyError: 'odd"):
        taking(Even).decode('{"value": {"number": 1}}', 1)


def test_a_models_problem_is_told_without_its_values() -> None:
    with pytest.raises(ArgumentsDoNotFit) as caught:
        taking(Profile).decode('{"value": {"fullName": ["secret"], "born": "2030-01-01"}}', 1)
    assert caught.value.field == "value"
    assert "fullName: Input should be a valid string" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_arguments_that_are_decoded_already_are_taken_too() -> None:
    call = mixed.decode({"first": 1, "third": True}, 1)
    assert call == ((1, "x"), {"third": True, "fourth": 0.5})


# Versions


@task(
    args_version=3,
    upcasters={1: lambda old: {"full": old["name"]}, 2: lambda old: {"person": old}},
)
def versioned(person: dict[str, str]) -> None: ...


@pytest.mark.parametrize(
    ("stored", "version"),
    [
        ('{"name": "Ada"}', 1),
        ({"full": "Ada"}, 2),
        (b'{"person": {"full": "Ada"}}', 3),
    ],
)
def test_upcasters_lift_old_arguments_step_by_step(stored: Any, version: int) -> None:
    assert versioned.decode(stored, version) == (({"full": "Ada"},), {})


def test_a_request_carries_the_version_of_its_arguments() -> None:
    assert versioned.prepare({}).args_version == 3


@pytest.mark.parametrize(
    ("stored", "version", "problem"),
    [
        ("{}", 4, "they have version 4 and this code knows up to 3"),
        ("{}", 1, "upcaster from version 1 raised KeyError: 'name'"),
        ("{", 1, "truncated"),
    ],
)
def test_versions_that_cannot_be_lifted_do_not_fit(stored: str, version: int, problem: str) -> None:
    with pytest.raises(ArgumentsDoNotFit, match=problem):
        versioned.decode(stored, version)


def test_missing_or_broken_upcaster_raises_arguments_do_not_fit() -> None:
    without = task(name="a", args_version=2)(mixed.fn)
    nonsense = task(name="b", args_version=2, upcasters={1: lambda _: 5})(mixed.fn)  # type: ignore[dict-item,return-value]
    with pytest.raises(ArgumentsDoNotFit, match="no upcaster from version 1 to 2"):
        without.decode("{}", 1)
    with pytest.raises(ArgumentsDoNotFit, match="raised TypeError"):
        nonsense.decode("{}", 1)
