"""A handler's result as JSON. Nothing is refused here: a settle never fails for its content."""

import re
from typing import Any, Final

import msgspec

from penstock.job import UNSTORABLE, storable
from penstock.tasks.fault import LONGEST_INTEGER
from penstock.tasks.payload import encode_hook

RESULT_LIMIT: Final = 1024 * 1024
REPR_LIMIT: Final = 1024
MOST_VALUES: Final = 200_000
# An escaped NUL: a backslash that is not itself escaped, then u0000.
ESCAPED_NUL: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def encode_result(value: Any, limit: int = RESULT_LIMIT) -> str:
    """Return the JSON of a result, whatever it is.

    NUL and lone surrogates become U+FFFD, NaN and infinity null, other things that JSON cannot hold
    their repr. What is too large becomes {"$too_large": {"bytes": …, "limit": …}}.
    """
    try:
        raw = _encoder.encode(value)
    except Exception:
        raw = _rescued(value)
    if len(raw) > limit:
        raw = _encoder.encode({"$too_large": {"bytes": len(raw), "limit": limit}})
    text = raw.decode()
    return ESCAPED_NUL.sub(r"\1\\ufffd", text) if r"\u0000" in text else text


def bounded_repr(value: object) -> str:
    """Return the repr of anything as text that can be stored, even if its repr fails."""
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


_encoder = msgspec.json.Encoder(enc_hook=_hook)


def _rescued(value: Any) -> bytes:
    try:
        return _encoder.encode(_Cleaner().clean(value))
    except Exception:
        return _encoder.encode(bounded_repr(value))


class _Cleaner:
    """Replaces everything that kept a value from being encoded, value by value.

    Values may contain themselves, so the walk has an end: RecursionError.
    """

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def clean(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise RecursionError
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, str):
            return UNSTORABLE.sub("\ufffd", value)
        if isinstance(value, int):
            return value if value.bit_length() <= LONGEST_INTEGER else hex(value)[:REPR_LIMIT] + "…"
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
