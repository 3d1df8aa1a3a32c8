"""Checks the names of steps, and encodes and decodes their results."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import ConfigError, StepDoesNotFit
from penstock.tasks.options import CHECKS
from penstock.tasks.payload import RESULT_LIMIT, encode_object
from penstock.tasks.reader import load, shape_of

# An attempt reads all results at its first step.
MAX_STEPS: Final = 10_000
MAX_STEPS_CHARS: Final = 64 * 1024 * 1024
RESULT: Final = "result"


def step_name(value: Any) -> str:
    """Return the name of a step, or raise ConfigError if it is not allowed."""
    return str(CHECKS["idempotency_key"]("step", value or ""))


class StepResult:
    """Encodes the result of a step's function as JSON, and decodes it.

    A result is decoded into the type of the function's return annotation. The attempt that runs the
    step encodes and decodes the result too, so it gets the same value as later attempts, which
    only read the stored result.
    """

    def __init__(self, step: str, fn: Callable[..., Any]) -> None:
        self._step = step
        self._codec = _codec(_hint(fn))

    def encode(self, value: Any) -> str:
        """Return the JSON of a result, or raise PayloadRefused if it cannot be stored."""
        loose = frozenset([RESULT]) if self._codec.loose_keys else frozenset[str]()
        whole = encode_object(
            {RESULT: value}, RESULT_LIMIT, field=f"step {self._step!r}", loose_keys=loose
        )
        return whole[len(RESULT) + 4 : -1]  # without {"result": and }

    def decode(self, text: str) -> Any:
        """Decode a result from its JSON, or raise StepDoesNotFit."""
        try:
            return self._codec.decoder.decode(text)
        except msgspec.ValidationError as error:
            raise StepDoesNotFit(self._step, str(error)) from None


class _Codec(NamedTuple):
    decoder: msgspec.json.Decoder[Any]
    loose_keys: bool


def _hint(fn: Callable[..., Any]) -> Any:
    """Return the return annotation of a function; Any if it has none that can be looked up."""
    try:
        return typing.get_type_hints(inspect.unwrap(fn), include_extras=True).get("return", Any)
    except Exception:
        return Any


def _codec(hint: Any) -> _Codec:
    try:
        return _checked_codec(hint)
    except (ConfigError, TypeError):
        # This type cannot be read from JSON. Its values come back as plain values.
        return _checked_codec(Any)


@lru_cache(1000)
def _checked_codec(hint: Any) -> _Codec:
    shape = shape_of("return", hint)
    return _Codec(msgspec.json.Decoder(hint, dec_hook=load), shape.loose_keys)
