"""Where in a value is what Postgres cannot store as JSON."""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import PayloadRefused
from penstock.job import UNSTORABLE

DEEPEST: Final = 200
LONGEST_INTEGER: Final = 14_000  # bits: as many as fit into the 4,300 digits that Python writes
PATH_SHOWN: Final = 60

NO_TEXT: Final = "Take it out, or annotate the parameter as bytes and pass those."
NO_FORM: Final = "Pass plain values, dataclasses or Structs, or an id to find the object by."
NO_KEY: Final = "Use string keys, or annotate the parameter with its keys, such as dict[int, str]."


class Fault(NamedTuple):
    """Something that cannot be stored. The path is relative to the value that was searched."""

    problem: str
    remedy: str
    path: str = ""

    def under(self, step: str) -> "Fault":
        """Return this fault as seen from one step further out."""
        return self._replace(path=step + self.path)

    def at(self, field: str) -> PayloadRefused:
        """Return the error for this fault in the value of a field."""
        path = field + self.path
        if len(path) > PATH_SHOWN:
            path = path[:PATH_SHOWN] + "…"
        return PayloadRefused(path, self.problem, self.remedy)


class FaultFinder:
    """Finds the first thing in a value that cannot be stored.

    `hook` turns values that msgspec does not know into ones that it knows. With `loose_keys`, the
    keys of dicts may be anything that JSON can write as text, such as integers.
    """

    def __init__(self, hook: Callable[[Any], Any], *, loose_keys: bool = False) -> None:
        self._hook = hook
        self._loose_keys = loose_keys

    def find(self, value: Any, depth: int = 0) -> Fault | None:
        """Return what is wrong in `value`, or None."""
        kind = type(value)
        if kind is str:
            return _text_fault(value, "it")
        if kind is int or kind is float or isinstance(value, (str, int, float)) or value is None:
            return _scalar_fault(value)
        if depth >= DEEPEST:
            problem = f"it is nested more than {DEEPEST} deep, or contains itself"
            return Fault(problem, "Pass a flatter value.")
        if isinstance(value, dict):
            return self._in_dict(value, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._in_items(value, depth)
        return self._in_object(value, depth)

    def _in_dict(self, value: dict[Any, Any], depth: int) -> Fault | None:
        for key, item in value.items():
            if fault := self.find_in_key(key):
                return fault
            if fault := self.find(item, depth + 1):
                return fault.under(_step(key))
        return None

    def _in_items(self, value: Iterable[Any], depth: int) -> Fault | None:
        for index, item in enumerate(value):
            if fault := self.find(item, depth + 1):
                return fault.under(f"[{index}]")
        return None

    def _in_object(self, value: Any, depth: int) -> Fault | None:
        try:
            plain = msgspec.to_builtins(value, enc_hook=self._hook)
        except Exception:
            for name in _names(value):
                if fault := self.find(getattr(value, name, None), depth + 1):
                    return fault.under(f".{name}")
            return Fault(
                f"JSON has no form for a value of type {type(value).__qualname__}", NO_FORM
            )
        return self.find(plain, depth + 1)

    def find_in_key(self, key: Any) -> Fault | None:
        """Return what is wrong with a key of an object, or None."""
        if isinstance(key, str):
            return _text_fault(key, "one of its keys")
        if self._loose_keys and _is_writable(key):
            return None
        return Fault(f"its key {key!r:.80} is not a string", NO_KEY)


def _scalar_fault(value: object) -> Fault | None:
    if isinstance(value, str):
        return _text_fault(value, "it")
    if isinstance(value, float) and not isfinite(value):
        return Fault(f"{value} is no number in JSON", "Pass None or leave it out.")
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        return Fault("the integer has thousands of digits", "Pass it as text.")
    return None


def _text_fault(text: str, subject: str) -> Fault | None:
    if not (found := UNSTORABLE.search(text)):
        return None
    what = "a NUL character" if found[0] == "\0" else "half of a surrogate pair"
    return Fault(f"{subject} contains {what} at position {found.start()}", NO_TEXT)


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
