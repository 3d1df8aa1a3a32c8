"""Encodes arguments and results as JSON that Postgres can store.

A value that cannot be stored is refused with the path to its faulty part.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from penstock.errors import PayloadRefused, PayloadTooLarge
from penstock.job import UNSTORABLE, storable

MAX_DEPTH: Final = 200
MAX_INTEGER_BITS: Final = 14_000  # they fit into the 4,300 digits that Python writes
MAX_PATH_CHARS: Final = 60

TEXT_REMEDY: Final = "Take it out, or annotate the parameter as bytes and pass those."
TYPE_REMEDY: Final = "Pass plain values, dataclasses or Structs, or an id to find the object by."
KEY_REMEDY: Final = (
    "Use string keys, or annotate the parameter with its keys, such as dict[int, str]."
)


class PayloadFault(NamedTuple):
    """Why a value cannot be stored. `path` leads from the value to the faulty part inside it."""

    problem: str
    remedy: str
    path: str = ""

    def prefixed(self, step: str) -> PayloadFault:
        """Return this fault with `step` put in front of its path."""
        return self._replace(path=step + self.path)

    def to_error(self, field: str) -> PayloadRefused:
        """Return the exception to raise if the value of `field` has this fault."""
        path = field + self.path
        if len(path) > MAX_PATH_CHARS:
            path = path[:MAX_PATH_CHARS] + "…"
        return PayloadRefused(path, self.problem, self.remedy)


class FaultFinder:
    """Finds the first thing in a value that cannot be stored.

    `hook` converts values of types that msgspec does not know. With `loose_keys`, keys of dicts may
    be anything that JSON can write as text, such as integers.
    """

    def __init__(self, hook: Callable[[Any], Any], *, loose_keys: bool = False) -> None:
        self._hook = hook
        self._loose_keys = loose_keys

    def find(self, value: Any, depth: int = 0) -> PayloadFault | None:
        """Return the first fault in `value`, or None."""
        kind = type(value)
        if kind is str:
            return _text_fault(value, "it")
        if kind is int or kind is float or isinstance(value, (str, int, float)) or value is None:
            return _scalar_fault(value)
        if depth >= MAX_DEPTH:
            problem = f"it is nested more than {MAX_DEPTH} deep, or contains itself"
            return PayloadFault(problem, "Pass a flatter value.")
        if isinstance(value, dict):
            return self._in_dict(value, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._in_items(value, depth)
        return self._in_object(value, depth)

    def _in_dict(self, value: dict[Any, Any], depth: int) -> PayloadFault | None:
        for key, item in value.items():
            if fault := self.find_in_key(key):
                return fault
            if fault := self.find(item, depth + 1):
                return fault.prefixed(_step(key))
        return None

    def _in_items(self, value: Iterable[Any], depth: int) -> PayloadFault | None:
        for index, item in enumerate(value):
            if fault := self.find(item, depth + 1):
                return fault.prefixed(f"[{index}]")
        return None

    def _in_object(self, value: Any, depth: int) -> PayloadFault | None:
        try:
            plain = msgspec.to_builtins(value, enc_hook=self._hook)
        except Exception:
            for name in _names(value):
                if fault := self.find(getattr(value, name, None), depth + 1):
                    return fault.prefixed(f".{name}")
            return PayloadFault(
                f"JSON cannot hold a value of type {type(value).__qualname__}", TYPE_REMEDY
            )
        return self.find(plain, depth + 1)

    def find_in_key(self, key: Any) -> PayloadFault | None:
        """Return the fault of a dict's key, or None."""
        if isinstance(key, str):
            return _text_fault(key, "one of its keys")
        if self._loose_keys and _is_writable(key):
            return None
        return PayloadFault(f"its key {key!r:.80} is not a string", KEY_REMEDY)


def _scalar_fault(value: object) -> PayloadFault | None:
    if isinstance(value, str):
        return _text_fault(value, "it")
    if isinstance(value, float) and not isfinite(value):
        return PayloadFault(f"{value} is no number in JSON", "Pass None or leave it out.")
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return PayloadFault("the integer has thousands of digits", "Pass it as text.")
    return None


def _text_fault(text: str, subject: str) -> PayloadFault | None:
    if not (match := UNSTORABLE.search(text)):
        return None
    character = "a NUL character" if match[0] == "\0" else "half of a surrogate pair"
    return PayloadFault(f"{subject} contains {character} at position {match.start()}", TEXT_REMEDY)


def _step(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r:.80}]"


def _is_writable(key: object) -> bool:
    try:
        msgspec.json.encode({key: None})
    except Exception:
        return False
    return True


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(value):
        return tuple(field.name for field in fields(value))
    return ()


def is_model(kind: type) -> bool:
    """Return whether this class is a pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def dump_model(model: Any) -> Any:
    """Return a pydantic model as plain values that JSON can hold."""
    return model.model_dump(mode="json", by_alias=True, round_trip=True)


def load_model(kind: Any, value: Any) -> Any:
    """Return the pydantic model for values that were stored.

    Raises ValueError if they do not fit.
    """
    try:
        # Strict models take text for dates and the like only if it comes from JSON.
        return kind.model_validate_json(msgspec.json.encode(value))
    except sys.modules["pydantic"].ValidationError as error:
        raise ValueError(_problems(error)) from None


def _problems(error: Any) -> str:
    """Describe a validation error without quoting the values, which may be secret."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems)


ARGS_LIMIT: Final = 1024 * 1024
# JSON has NaN and infinity as null, and NUL as an escape that may also be an escaped backslash
# before u0000. Where one of these occurs, the values are searched for real faults.
NULL: Final = "null"
PAYLOAD_ESCAPED_NUL: Final = r"\u0000"


def encode_hook(value: Any) -> Any:
    """Convert a value for msgspec, which does not know its type, or raise NotImplementedError."""
    if is_model(type(value)):
        return dump_model(value)
    raise NotImplementedError(type(value).__qualname__)


_payload_encoder = msgspec.json.Encoder(enc_hook=encode_hook)
_finder = FaultFinder(encode_hook)
_loose_finder = FaultFinder(encode_hook, loose_keys=True)


def encode_object(
    values: dict[str, Any],
    limit: int,
    *,
    field: str = "",
    walk: bool = True,
    loose_keys: frozenset[str] = frozenset(),
) -> str:
    """Return an object as JSON text, or raise PayloadRefused.

    With `walk`, the values are always searched for faults, because some faults do not show in the
    JSON, such as dict keys that are not strings. `loose_keys` names the fields that may have such
    keys, because decoding into the annotated type restores the keys.
    """
    try:
        raw = _payload_encoder.encode(values)
    except Exception as error:
        _refuse(values, field, loose_keys, error)
    if len(raw) > limit:
        _refuse_size(values, field, len(raw), limit)
    text = raw.decode()  # searching text is ten times as fast as searching bytes
    if walk or NULL in text or PAYLOAD_ESCAPED_NUL in text:
        _refuse_faults(values, field, loose_keys)
    return text


def _refuse_faults(values: dict[str, Any], field: str, loose_keys: frozenset[str]) -> None:
    for name, value in values.items():
        if fault := _finder.find_in_key(name):
            raise fault.to_error(field or "arguments")
        finder = _loose_finder if name in loose_keys else _finder
        if fault := finder.find(value):
            raise fault.to_error(f"{field}.{name}" if field else name)


def _refuse(
    values: dict[str, Any], field: str, loose_keys: frozenset[str], error: Exception
) -> NoReturn:
    _refuse_faults(values, field, loose_keys)
    raise PayloadRefused(
        field or "arguments", f"it cannot be encoded as JSON ({error})", "Pass plain values."
    ) from error


def _refuse_size(values: dict[str, Any], field: str, size: int, limit: int) -> NoReturn:
    sizes = {name: len(_payload_encoder.encode(value)) for name, value in values.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    if sizes[largest] > limit:
        field = f"{field}.{largest}" if field else largest
        raise PayloadTooLarge(field, sizes[largest], limit)
    raise PayloadTooLarge(field or "arguments", size, limit)


RESULT_LIMIT: Final = 1024 * 1024
REPR_LIMIT: Final = 1024
MAX_VALUES: Final = 200_000
# An escaped NUL: a backslash that is not itself escaped, then u0000.
RESULT_ESCAPED_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def encode_result(value: Any, limit: int = RESULT_LIMIT) -> str:
    """Return the JSON of a result. Never fails, whatever the result is.

    NUL and lone surrogates become U+FFFD, NaN and infinity become null, and anything else that JSON
    cannot hold becomes its repr. A result that is too large becomes
    {"$too_large": {"bytes": …, "limit": …}}.
    """
    try:
        raw = _result_encoder.encode(value)
    except Exception:
        raw = _encode_cleaned(value)
    if len(raw) > limit:
        raw = _result_encoder.encode({"$too_large": {"bytes": len(raw), "limit": limit}})
    text = raw.decode()
    return RESULT_ESCAPED_NUL.sub(r"\1\\ufffd", text) if r"\u0000" in text else text


def bounded_repr(value: object) -> str:
    """Return the repr of a value as text that can be stored. Never fails, even if the repr does."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__qualname__}, whose repr raised {type(error).__name__}>"
    return storable(text, REPR_LIMIT)


def _hook(value: Any) -> Any:
    try:
        return encode_hook(value)
    except Exception:
        return bounded_repr(value)


_result_encoder = msgspec.json.Encoder(enc_hook=_hook)


def _encode_cleaned(value: Any) -> bytes:
    try:
        return _result_encoder.encode(_Cleaner().clean(value))
    except Exception:
        return _result_encoder.encode(bounded_repr(value))


class _Cleaner:
    """Replaces the parts of a value that cannot be encoded.

    A value may contain itself, so after MAX_VALUES parts this raises RecursionError.
    """

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def clean(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise RecursionError
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, str):
            return UNSTORABLE.sub("\ufffd", value)
        if isinstance(value, int):
            return (
                value if value.bit_length() <= MAX_INTEGER_BITS else hex(value)[:REPR_LIMIT] + "…"
            )
        if isinstance(value, dict):
            return {_key(key): self.clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.clean(item) for item in value]
        return self.clean(_builtin(value))


def _builtin(value: Any) -> Any:
    try:
        return msgspec.to_builtins(value, enc_hook=_hook)
    except Exception:
        return bounded_repr(value)


def _key(key: object) -> str:
    return UNSTORABLE.sub("\ufffd", key) if isinstance(key, str) else bounded_repr(key)
