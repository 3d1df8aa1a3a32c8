"""A task's arguments on their way into a row and out of it again."""

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

# How msgspec says where: "Expected `int`, got `str` - at `$.profile.age`".
PLACE: Final = re.compile(r" - at (?:`key` in )?`\$\.?(.*)`$")
FIELD: Final = re.compile(r"field `(.*?)`")
NEWEST_VERSION: Final = 32_767


class Arguments:
    """Encodes calls of one task, and decodes them again, also those of older versions."""

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
        self._upcasters = _checked(upcasters, version)
        self._limit = limit

    @cached_property
    def reader(self) -> Reader:
        """The annotations, looked up at the first use: they may name what is defined later."""
        return Reader(self.parameters)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the JSON object of a call, or raise TypeError or PayloadRefused."""
        reader = self.reader
        raw = encode_object(
            self.parameters.bind(args, kwargs),
            self._limit,
            walk=reader.has_any,
            loose_keys=reader.loose_keys,
        )
        if not reader.all_any:
            self._refuse_misfit(raw)
        return raw

    def decode(self, raw: str | bytes | Mapping[str, Any], version: int) -> Call:
        """Return what to call the handler with, or raise ArgumentsDoNotFit."""
        if version != self.version:
            raw = self._lifted(raw, version)
        elif not isinstance(raw, str | bytes):
            raw = msgspec.json.encode(raw)
        try:
            return self.reader.read(raw)
        except Exception as error:
            raise self._misfit(*_explained(error)) from error

    def _refuse_misfit(self, raw: str) -> None:
        """Refuse now what a worker could not read: a wrong type, or what a check forbids."""
        try:
            self.reader.read(raw)
        except Exception as error:
            field, problem = _explained(error)
            raise PayloadRefused(
                field or "arguments",
                f"it would not fit the task {self._task!r} ({problem})",
                "Pass what the parameter's annotation says, or correct the annotation.",
            ) from error

    def _lifted(self, raw: str | bytes | Mapping[str, Any], version: int) -> bytes:
        """Return the arguments of an older version as those of the present one."""
        if version > self.version:
            problem = f"they have version {version} and this code knows up to {self.version}"
            raise self._misfit(None, problem)
        try:
            values = msgspec.json.decode(raw) if isinstance(raw, str | bytes) else dict(raw)
        except Exception as error:
            raise self._misfit(*_explained(error)) from error
        for step in range(version, self.version):
            values = self._upcast(step, values)
        return msgspec.json.encode(values)

    def _upcast(self, step: int, values: dict[str, Any]) -> dict[str, Any]:
        if step not in self._upcasters:
            raise self._misfit(None, f"there is no upcaster from version {step} to {step + 1}")
        try:
            return dict(self._upcasters[step](values))
        except Exception as error:
            problem = f"the upcaster from version {step} raised {type(error).__name__}: {error}"
            raise self._misfit(None, problem) from error

    def _misfit(self, field: str | None, problem: str) -> ArgumentsDoNotFit:
        return ArgumentsDoNotFit(self._task, field, problem)


def _checked(upcasters: Mapping[int, Upcaster], version: int) -> dict[int, Upcaster]:
    if sorted(upcasters) != list(range(version - len(upcasters), version)) or 0 in upcasters:
        raise ConfigError(
            "upcasters",
            sorted(upcasters),
            f"one for each version up to {version - 1}, since args_version is {version}",
        )
    return dict(upcasters)


def _explained(error: Exception) -> tuple[str | None, str]:
    """Return the field that an error of msgspec is about, and what is wrong there."""
    try:
        message = str(error)
    except Exception:
        message = ""
    if not isinstance(error, msgspec.MsgspecError):
        return None, storable(f"{type(error).__name__}: {message}", MESSAGE_LIMIT)
    place = PLACE.search(message)
    problem = storable(message[: place.start()] if place else message, MESSAGE_LIMIT)
    path = [place[1]] if place and place[1] else []
    if named := FIELD.search(problem):
        path.append(named[1])
    return ".".join(path) or None, problem
