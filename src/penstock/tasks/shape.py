"""What a parameter's type means for its way through JSON."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, inspect

from penstock.errors import Misuse
from penstock.tasks.context import Context
from penstock.tasks.models import is_model


class Shape(Struct, frozen=True):
    """`is_any`: nothing is known of the values. `has_any`: somewhere inside nothing is known.
    `loose_keys`: it has dicts whose keys are typed otherwise than as text."""

    is_any: bool
    has_any: bool
    loose_keys: bool


def shape_of(setting: str, hint: Any) -> Shape:
    """Return the shape of a type, or raise Misuse if it cannot come out of JSON."""
    try:
        info = inspect.type_info(hint)
    except Exception as error:
        raise Misuse(f"{setting} has a type that cannot be read from JSON ({error}).") from None
    parts = list(_parts(info, set()))
    for part in parts:
        if isinstance(part, inspect.CustomType):
            _check_class(setting, part.cls)
    return Shape(
        is_any=_is_open(info),
        has_any=any(_is_open(part) for part in parts),
        loose_keys=any(isinstance(part, inspect.DictType) and _is_loose(part) for part in parts),
    )


def _parts(info: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield a type and all types inside it, each class once: classes may contain themselves."""
    cls = getattr(info, "cls", None)
    if cls in seen:
        return
    if cls is not None:
        seen.add(cls)
    yield info
    for inside in ("type", "item_type", "key_type", "value_type"):
        if (inner := getattr(info, inside, None)) is not None:
            yield from _parts(inner, seen)
    for several in ("types", "item_types"):
        for inner in getattr(info, several, ()):
            yield from _parts(inner, seen)
    for field in getattr(info, "fields", ()):
        yield from _parts(field.type, seen)


def _check_class(setting: str, cls: type) -> None:
    if cls is object or is_model(cls):
        return
    if issubclass(cls, Context):
        raise Misuse(f"{setting} is a {cls.__name__}: that can be the first parameter alone.")
    raise Misuse(
        f"{setting} has the type {cls.__qualname__}, which cannot be read from JSON. Arguments may "
        "be plain types, dataclasses, Structs, pydantic models, enums, UUID, Decimal, bytes, dates "
        "and times, and lists, sets, tuples and dicts of these."
    )


def _is_open(part: Any) -> bool:
    return isinstance(part, inspect.AnyType) or getattr(part, "cls", None) is object


def _is_loose(part: inspect.DictType) -> bool:
    return not isinstance(part.key_type, inspect.StrType | inspect.AnyType)
