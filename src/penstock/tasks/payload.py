"""Values as JSON that Postgres can store. What it could not store is refused, with the field.

The good case is one encoding and two searches through it; a value is only walked when
these say that something may be wrong in it.
"""

from typing import Any, Final, NoReturn

import msgspec

from penstock.errors import PayloadRefused, PayloadTooLarge
from penstock.tasks.fault import FaultFinder
from penstock.tasks.models import dump_model, is_model

ARGS_LIMIT: Final = 1024 * 1024
# NaN and infinity are encoded as null, and NUL as an escape that may also be an escaped backslash
# followed by u0000: only a walk tells the harmless ones apart.
NULL: Final = "null"
ESCAPED_NUL: Final = r"\u0000"


def encode_hook(value: Any) -> Any:
    """Return a value that msgspec does not know as one that it knows."""
    if is_model(type(value)):
        return dump_model(value)
    raise NotImplementedError(type(value).__qualname__)


_encoder = msgspec.json.Encoder(enc_hook=encode_hook)
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
    """Return the JSON of an object, or raise PayloadRefused.

    `walk` says that the values may hold what the text does not show, such as keys that are no
    strings; `loose_keys` names the fields whose annotation brings such keys back.
    """
    try:
        raw = _encoder.encode(values)
    except Exception as error:
        _refuse(values, field, loose_keys, error)
    if len(raw) > limit:
        _refuse_size(values, field, len(raw), limit)
    text = raw.decode()  # a search in text is ten times as fast as one in bytes
    if walk or NULL in text or ESCAPED_NUL in text:
        _refuse_faults(values, field, loose_keys)
    return text


def _refuse_faults(values: dict[str, Any], field: str, loose_keys: frozenset[str]) -> None:
    for name, value in values.items():
        if fault := _finder.find_in_key(name):
            raise fault.at(field or "arguments")
        finder = _loose_finder if name in loose_keys else _finder
        if fault := finder.find(value):
            raise fault.at(f"{field}.{name}" if field else name)


def _refuse(
    values: dict[str, Any], field: str, loose_keys: frozenset[str], error: Exception
) -> NoReturn:
    _refuse_faults(values, field, loose_keys)
    raise PayloadRefused(
        field or "arguments", f"it cannot be encoded as JSON ({error})", "Pass plain values."
    ) from error


def _refuse_size(values: dict[str, Any], field: str, size: int, limit: int) -> NoReturn:
    sizes = {name: len(_encoder.encode(value)) for name, value in values.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    if sizes[largest] > limit:
        field = f"{field}.{largest}" if field else largest
        raise PayloadTooLarge(field, sizes[largest], limit)
    raise PayloadTooLarge(field or "arguments", size, limit)
