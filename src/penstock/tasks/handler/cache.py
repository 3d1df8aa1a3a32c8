"""Shares the results of steps between jobs that run the same code with equal arguments."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from types import CodeType
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError, PayloadRefused
from penstock.tasks.options import seconds
from penstock.tasks.payload import encode_hook

DAY_S: Final = 86_400.0

_encoder = msgspec.json.Encoder(enc_hook=encode_hook, order="deterministic")


class Cache(Struct, frozen=True, kw_only=True):
    """Share a step's result with all jobs of the tenant that call it with equal arguments.

        await ctx.step("embed", embed, text, cache=Cache(ttl=timedelta(days=30), version="2"))

    The result is kept for `ttl` seconds. Change `version` whenever a change of the code makes old
    results wrong. Without a `version`, Penstock uses a hash of the function's own code. The hash
    stays the same if you change another function that this function calls.
    """

    ttl: float | timedelta = DAY_S
    version: str | int | None = None

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ConfigError("ttl", self.ttl, "more than 0 seconds")
        if not isinstance(self.version, str | int | None):
            raise ConfigError("version", self.version, "text, a number, or None")

    @property
    def seconds(self) -> float:
        return seconds("ttl", self.ttl)

    def key(
        self, step: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bytes:
        """Return a hash of the step's name, its code or version, and its arguments."""
        while isinstance(fn, partial):
            args, kwargs = (*fn.args, *args), {**fn.keywords, **kwargs}
            fn = fn.func
        version = fingerprint(fn) if self.version is None else str(self.version)
        arguments = _encode(step, _bind(fn, args, kwargs))
        parts = (step.encode(), version.encode(), arguments)
        return hashlib.sha256(b"".join(_length(part) + part for part in parts)).digest()


def fingerprint(fn: Callable[..., Any]) -> str:
    """Return a hash of a function's code and of the functions defined inside it."""
    fn = inspect.unwrap(fn)
    if not inspect.isfunction(fn) or fn.__closure__:
        raise ConfigError(
            "version",
            None,
            f"text or a number for {fn!r}, because a version can only be computed for a plain "
            "function that uses no variables of an enclosing function",
        )
    return hashlib.sha256("\n".join(_describe_code(fn.__code__)).encode()).hexdigest()


def _describe_code(code: CodeType) -> Iterator[str]:
    yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars))
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _describe_code(value)
        elif isinstance(value, frozenset):
            yield repr(sorted(map(repr, value)))  # Its order differs from process to process.
        else:
            yield repr(value)


def _bind(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the arguments by name, with defaults, so that equivalent calls have equal arguments.

    Returns a list of `args` and `kwargs` if they do not fit the function's signature.
    """
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
    except (TypeError, ValueError):
        # The function has no signature, or the call does not fit it and will raise by itself.
        return [args, kwargs]
    bound.apply_defaults()
    return bound.arguments


def _encode(step: str, arguments: Any) -> bytes:
    try:
        return _encoder.encode(arguments)
    except Exception as error:
        raise PayloadRefused(
            f"step {step!r}",
            f"its arguments cannot be compared as JSON ({error})",
            "Pass plain values, or call the step without a cache.",
        ) from error


def _length(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big")
