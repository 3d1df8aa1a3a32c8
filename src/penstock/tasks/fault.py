"""Where in a value is what Postgres cannot store as JSON: a slow walk, for the error's sake."""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, Final

import msgspec

from penstock.errors import PayloadRefused
from penstock.job import UNSTORABLE

DEEPEST: Final = 200
LONGEST_INTEGER: Final = 14_000  # bits: as many as fit into the 4,300 digits that Python writes
MEMBERS_SHOWN: Final = 60
REPLACE_TEXT: Final = "Take it out, or annotate the parameter as bytes and pass those."


class FaultFinder:
    """Finds the first value that cannot be stored.

    `hook` turns values that msgspec does not know into ones that it knows. With `loose_keys`, the
    keys of dicts may be anything that JSON can write as text, such as integers.
    """

    def __init__(self, hook: Callable[[Any], Any], *, loose_keys: bool = False) -> None:
        self._hook = hook
        self._loose_keys = loose_keys

    def find(self, value: Any, path: str, depth: int = 0) -> PayloadRefused | None:
        """Return what is wrong in `value`, which is found at `path`, or None."""
        if value is None or isinstance(value, str | int | float):
            return _scalar_fault(value, path)
        if depth >= DEEPEST:
            return PayloadRefused(
                _shortened(path),
                f"it is nested more than {DEEPEST} deep, or contains itself",
                "Pass a flatter value.",
            )
        if isinstance(value, dict):
            return self._in_dict(value, path, depth)
        if isinstance(value, list | tuple | set | frozenset):
            members = ((f"{path}[{index}]", item) for index, item in enumerate(value))
            return self._in_members(members, depth)
        return self._in_object(value, path, depth)

    def _in_dict(self, value: dict[Any, Any], path: str, depth: int) -> PayloadRefused | None:
        for key in value:
            if fault := self._key_fault(key, path):
                return fault
        members = ((joined(path, key), item) for key, item in value.items())
        return self._in_members(members, depth)

    def _in_object(self, value: Any, path: str, depth: int) -> PayloadRefused | None:
        try:
            plain = msgspec.to_builtins(value, enc_hook=self._hook)
        except Exception:
            members = ((f"{path}.{name}", getattr(value, name, None)) for name in _names(value))
            return self._in_members(members, depth) or PayloadRefused(
                path,
                f"JSON has no form for a value of type {type(value).__qualname__}",
                "Pass plain values, dataclasses or Structs, or an id to find the object by.",
            )
        return self.find(plain, path, depth + 1)

    def _in_members(self, members: Iterable[tuple[str, Any]], depth: int) -> PayloadRefused | None:
        for path, value in members:
            if fault := self.find(value, path, depth + 1):
                return fault
        return None

    def _key_fault(self, key: Any, path: str) -> PayloadRefused | None:
        if isinstance(key, str):
            return _text_fault(key, path, f"its key {key!r:.80}")
        if self._loose_keys and _is_writable(key):
            return None
        return PayloadRefused(
            path,
            f"its key {key!r:.80} is not a string",
            "Use string keys, or annotate the parameter with its keys, such as dict[int, str].",
        )


def joined(path: str, key: object) -> str:
    """Return the path of what a dict at `path` holds under `key`."""
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}"
    return f"{path}[{key!r:.80}]"


def _scalar_fault(value: object, path: str) -> PayloadRefused | None:
    if isinstance(value, str):
        return _text_fault(value, path, "it")
    if isinstance(value, float) and not isfinite(value):
        return PayloadRefused(path, f"{value} is no number in JSON", "Pass None or leave it out.")
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        return PayloadRefused(path, "the integer has thousands of digits", "Pass it as text.")
    return None


def _text_fault(text: str, path: str, subject: str) -> PayloadRefused | None:
    if not (found := UNSTORABLE.search(text)):
        return None
    what = "a NUL character" if found[0] == "\0" else "half of a surrogate pair"
    problem = f"{subject} contains {what} at position {found.start()}"
    return PayloadRefused(path, problem, REPLACE_TEXT)


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


def _shortened(path: str) -> str:
    return path if len(path) <= MEMBERS_SHOWN else path[:MEMBERS_SHOWN] + "…"
