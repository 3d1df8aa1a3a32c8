"""Decodes a task's arguments from JSON into the types that the handler's annotations name."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter
from typing import Any

import msgspec
from msgspec import Raw, Struct, inspect
from msgspec.structs import astuple

from penstock.errors import Misuse
from penstock.tasks.handler.context import Context
from penstock.tasks.parameters import Parameters
from penstock.tasks.payload import is_model, load_model


class TypeShape(Struct, frozen=True):
    """Properties of a type that decide which checks its values need.

    - `is_any`: the type itself is Any or object.
    - `has_any`: the type, or some type inside it, is Any or object.
    - `loose_keys`: the type contains dicts whose keys have a type other than str, such as int.
    """

    is_any: bool
    has_any: bool
    loose_keys: bool


def shape_of(setting: str, hint: Any) -> TypeShape:
    """Return the shape of a type, or raise Misuse if its values cannot be read from JSON."""
    try:
        info = inspect.type_info(hint)
    except Exception as error:
        raise Misuse(f"{setting} has a type that cannot be read from JSON ({error}).") from None
    parts = list(_parts(info, set()))
    for part in parts:
        if isinstance(part, inspect.CustomType):
            _check_class(setting, part.cls)
    return TypeShape(
        is_any=_is_open(info),
        has_any=any(_is_open(part) for part in parts),
        loose_keys=any(isinstance(part, inspect.DictType) and _is_loose(part) for part in parts),
    )


def _parts(info: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield a type and all types inside it, each class only once because it may contain itself."""
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
        raise Misuse(
            f"{setting} has the type {cls.__name__}, which only the first parameter may have."
        )
    raise Misuse(
        f"{setting} has the type {cls.__qualname__}, which cannot be read from JSON. Arguments may "
        "be plain types, dataclasses, Structs, pydantic models, enums, UUID, Decimal, bytes, dates "
        "and times, and lists, sets, tuples and dicts of these."
    )


def _is_open(part: Any) -> bool:
    return isinstance(part, inspect.AnyType) or getattr(part, "cls", None) is object


def _is_loose(part: inspect.DictType) -> bool:
    return not isinstance(part.key_type, inspect.StrType | inspect.AnyType)


Call = tuple[tuple[Any, ...], dict[str, Any]]


class Reader:
    """Decodes the arguments of one task, using a Struct with a field for each parameter."""

    def __init__(self, parameters: Parameters) -> None:
        hints = parameters.hints()
        shapes = {name: shape_of(f"{parameters.task}({name})", hints[name]) for name in hints}
        self.has_any = any(shape.has_any for shape in shapes.values())
        self.all_any = all(shape.is_any for shape in shapes.values())
        self.loose_keys = frozenset(name for name in shapes if shapes[name].loose_keys)

        self._parameters = parameters
        self._by_position = len(parameters.positional)
        self._plain = not parameters.keyword_only and parameters.extra is None
        self._decode = msgspec.json.Decoder(_struct(parameters, hints), dec_hook=load).decode
        extra = hints.get(parameters.extra or "", Any)
        self._decode_extra = msgspec.json.Decoder(extra, dec_hook=load).decode

    def read(self, raw: str | bytes) -> Call:
        """Decode arguments for a call of the handler. Absent arguments get their defaults."""
        values = astuple(self._decode(raw))
        if self._plain:
            return values, {}
        named = zip(self._parameters.keyword_only, values[self._by_position :], strict=True)
        return values[: self._by_position], dict(named) | self._extra(raw)

    def _extra(self, raw: str | bytes) -> dict[str, Any]:
        if self._parameters.extra is None:
            return {}
        values = msgspec.json.decode(raw, type=dict[str, Raw])
        extra = values.keys() - self._parameters.names
        return {name: self._read_extra(name, values[name]) for name in values if name in extra}

    def _read_extra(self, name: str, raw: Raw) -> Any:
        try:
            return self._decode_extra(raw)
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `$")
            raise msgspec.ValidationError(f"{problem} - at `$.{name}{path or '`'}") from None


def load(kind: type, value: Any) -> Any:
    """Convert a decoded value into a type that msgspec does not know.

    This function is passed to msgspec as its `dec_hook`.
    """
    if kind is object:
        return value
    if is_model(kind):
        return load_model(kind, value)
    raise NotImplementedError(f"{kind.__qualname__} cannot be read from JSON")


def _struct(parameters: Parameters, hints: dict[str, Any]) -> type[Struct]:
    fields = [
        _field(each, hints[each.name]) for each in parameters.all if each.name in parameters.names
    ]
    return msgspec.defstruct(
        "Arguments",
        fields,
        kw_only=True,
        forbid_unknown_fields=parameters.extra is None,
    )


def _field(parameter: Parameter, hint: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is Parameter.empty:
        return parameter.name, hint
    # A factory is used because msgspec refuses mutable defaults, which a function may have.
    return parameter.name, hint, msgspec.field(default_factory=lambda: parameter.default)
