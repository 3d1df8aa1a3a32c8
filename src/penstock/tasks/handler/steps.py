"""A step's name, and the way of its result into JSON and back."""

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

# All of them are read when an attempt comes to its first one.
MOST_STEPS: Final = 10_000
STEPS_LIMIT: Final = 64 * 1024 * 1024
RESULT: Final = "result"


def step_name(value: Any) -> str:
    """Return a name that a step can have."""
    return str(CHECKS["idempotency_key"]("step", value or ""))


class Recorded:
    """What a step's function returns, as it is kept and as it comes back.

    It comes back from JSON, typed by the function's annotation, the first time as well: so it is
    the same in the attempt that runs the step and in those that only read its result.
    """

    def __init__(self, step: str, fn: Callable[..., Any]) -> None:
        self._step = step
        self._form = _form(_hint(fn))

    def encode(self, value: Any) -> str:
        """Return the JSON of a result; raises PayloadRefused for what cannot be stored."""
        loose = frozenset([RESULT]) if self._form.loose_keys else frozenset[str]()
        whole = encode_object(
            {RESULT: value}, RESULT_LIMIT, field=f"step {self._step!r}", loose_keys=loose
        )
        return whole[len(RESULT) + 4 : -1]  # without {"result": and }

    def decode(self, text: str) -> Any:
        """Return a result from its JSON; raises StepDoesNotFit."""
        try:
            return self._form.decoder.decode(text)
        except msgspec.ValidationError as error:
            raise StepDoesNotFit(self._step, str(error)) from None


class _Form(NamedTuple):
    decoder: msgspec.json.Decoder[Any]
    loose_keys: bool


def _hint(fn: Callable[..., Any]) -> Any:
    """What a function says it returns; Any if it does not say, or nobody can look it up."""
    try:
        return typing.get_type_hints(inspect.unwrap(fn), include_extras=True).get("return", Any)
    except Exception:
        return Any


def _form(hint: Any) -> _Form:
    try:
        return _known_form(hint)
    except (ConfigError, TypeError):
        # A type that does not come out of JSON: its values come back as JSON has them.
        return _known_form(Any)


@lru_cache(1000)
def _known_form(hint: Any) -> _Form:
    shape = shape_of("return", hint)
    return _Form(msgspec.json.Decoder(hint, dec_hook=load), shape.loose_keys)
