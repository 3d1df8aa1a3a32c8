"""Encodes a task's arguments as the JSON of a row, and decodes them again."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from penstock.errors import ArgumentsDoNotFit, ConfigError, PayloadRefused
from penstock.job import MESSAGE_LIMIT, storable
from penstock.tasks.parameters import Parameters
from penstock.tasks.payload import encode_object
from penstock.tasks.reader import Call, Reader

Upcaster = Callable[[dict[str, Any]], Mapping[str, Any]]

# The path in a message of msgspec: "Expected `int`, got `str` - at `$.profile.age`".
PATH: Final = re.compile(r" - at (?:`key` in )?`\$\.?(.*)`$")
FIELD: Final = re.compile(r"field `(.*?)`")
MAX_VERSION: Final = 32_767


class Arguments:
    """Encodes the arguments of a task's jobs, and decodes stored arguments of all versions."""

    def __init__(
        self,
        parameters: Parameters,
        version: int,
        upcasters: Mapping[int, Upcaster],
        limit: int,
    ) -> None:
        self.parameters = parameters
        self.version = version
        self._task = parameters.task
        self._upcasters = _check_upcasters(upcasters, version)
        self._limit = limit

    @cached_property
    def reader(self) -> Reader:
        """Decodes arguments into the annotated types.

        It is created at first use, because annotations may name types that are defined after the
        task.
        """
        return Reader(self.parameters)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the arguments of a call as a JSON object.

        Raises TypeError if the handler does not accept such a call, and PayloadRefused if a value
        cannot be stored or does not fit its annotation.
        """
        reader = self.reader
        raw = encode_object(
            self.parameters.bind(args, kwargs),
            self._limit,
            walk=reader.has_any,
            loose_keys=reader.loose_keys,
        )
        if not reader.all_any:
            self._check_types(raw)
        return raw

    def decode(self, raw: str | bytes | Mapping[str, Any], version: int) -> Call:
        """Decode stored arguments for a call of the handler, or raise ArgumentsDoNotFit."""
        if version != self.version:
            raw = self._upgrade(raw, version)
        elif not isinstance(raw, str | bytes):
            raw = msgspec.json.encode(raw)
        try:
            return self.reader.read(raw)
        except Exception as error:
            raise self._error(*_explain(error)) from error

    def _check_types(self, raw: str) -> None:
        """Raise PayloadRefused for arguments that a worker could not read."""
        try:
            self.reader.read(raw)
        except Exception as error:
            field, problem = _explain(error)
            raise PayloadRefused(
                field or "arguments",
                f"it would not fit the task {self._task!r} ({problem})",
                "Pass what the parameter's annotation says, or correct the annotation.",
            ) from error

    def _upgrade(self, raw: str | bytes | Mapping[str, Any], version: int) -> bytes:
        """Upgrade the arguments of an older version, one upcaster after the other."""
        if version > self.version:
            problem = f"they have version {version} and this code knows up to {self.version}"
            raise self._error(None, problem)
        try:
            values = msgspec.json.decode(raw) if isinstance(raw, str | bytes) else dict(raw)
        except Exception as error:
            raise self._error(*_explain(error)) from error
        for step in range(version, self.version):
            values = self._upcast(step, values)
        return msgspec.json.encode(values)

    def _upcast(self, step: int, values: dict[str, Any]) -> dict[str, Any]:
        if step not in self._upcasters:
            raise self._error(None, f"there is no upcaster from version {step} to {step + 1}")
        try:
            return dict(self._upcasters[step](values))
        except Exception as error:
            problem = f"the upcaster from version {step} raised {type(error).__name__}: {error}"
            raise self._error(None, problem) from error

    def _error(self, field: str | None, problem: str) -> ArgumentsDoNotFit:
        return ArgumentsDoNotFit(self._task, field, problem)


def _check_upcasters(upcasters: Mapping[int, Upcaster], version: int) -> dict[int, Upcaster]:
    if sorted(upcasters) != list(range(version - len(upcasters), version)) or 0 in upcasters:
        raise ConfigError(
            "upcasters",
            sorted(upcasters),
            f"one for each version up to {version - 1}, since args_version is {version}",
        )
    return dict(upcasters)


def _explain(error: Exception) -> tuple[str | None, str]:
    """Return the field that an error is about (None if unknown), and a text about the problem."""
    try:
        message = str(error)
    except Exception:
        message = ""
    if not isinstance(error, msgspec.MsgspecError):
        return None, storable(f"{type(error).__name__}: {message}", MESSAGE_LIMIT)
    match = PATH.search(message)
    problem = storable(message[: match.start()] if match else message, MESSAGE_LIMIT)
    path = [match[1]] if match and match[1] else []
    if field := FIELD.search(problem):
        path.append(field[1])
    return ".".join(path) or None, problem
