"""The parameters of a handler that are arguments of its jobs: all but the context."""

import inspect
import typing
from collections.abc import Callable, Collection
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Any, NoReturn

from penstock.errors import Misuse
from penstock.tasks.handler.context import Context
from penstock.tasks.options import CHECKS

BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

# The names of our options in Celery.
RENAMED = {"countdown": "delay", "eta": "run_at", "expires": "deadline"}


class Parameters:
    """Binds a call's arguments to the names of a handler's parameters."""

    context: type[Any] = Context

    def __init__(self, task: str, fn: Callable[..., Any]) -> None:
        self.task = task
        self.fn = fn
        every = list(inspect.signature(fn).parameters.values())
        self.takes_context = bool(every) and self._is_context(every[0])
        self.all = self._arguments(every[1:] if self.takes_context else every)
        named = [one for one in self.all if one.kind is not Parameter.VAR_KEYWORD]
        self.positional = tuple(one.name for one in named if one.kind in BY_POSITION)
        self.keyword_only = tuple(one.name for one in named if one.kind not in BY_POSITION)
        self.extra = next((one.name for one in self.all if one not in named), None)
        self._by_name = frozenset(one.name for one in named if one.kind in BY_NAME)
        self._required = frozenset(one.name for one in named if one.default is Parameter.empty)
        self.names = frozenset(one.name for one in named)
        self.defaults = {
            one.name: one.default for one in named if one.default is not Parameter.empty
        }

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, or raise TypeError as a call would.

        Absent ones stay absent: a default belongs to the code that runs the job.
        """
        # Signature.bind takes 3 µs for what is 0.3 µs here; it is only asked for its message.
        if len(args) > len(self.positional):
            self._explain(args, kwargs)
        bound = dict(zip(self.positional, args))  # noqa: B905 (the keyword costs half as much again)
        if kwargs:
            known = self.extra is not None or kwargs.keys() <= self._by_name
            if not known or not bound.keys().isdisjoint(kwargs):
                self._explain(args, kwargs)
            bound.update(kwargs)
        if len(bound) < len(self.names) and not self._required <= bound.keys():
            self._explain(args, kwargs)
        return bound

    def misfits(self, given: Collection[str]) -> dict[str, str]:
        """What is wrong with the names of a call's arguments, by name."""
        missing = dict.fromkeys(sorted(self._required.difference(given)), "is required")
        if self.extra is not None:
            return missing
        unknown = sorted(set(given) - self._by_name)
        return missing | dict.fromkeys(unknown, f"is no argument of {self.task}")

    def hints(self) -> dict[str, Any]:
        """Return the type of each parameter, Any where none is given.

        Annotations are looked up now, so that a task may name types that are defined after it.
        """
        return {one.name: self._hint(one) for one in self.all}

    def _hint(self, parameter: Parameter) -> Any:
        if parameter.annotation is Parameter.empty:
            return Any
        try:
            return _resolved(self.fn, parameter)
        except Exception as error:
            raise Misuse(
                f"The annotation {parameter.annotation!r} of {parameter.name}, a parameter of the "
                f"task {self.task}, cannot be looked up ({error}). Import it in the task's module, "
                "and not only under TYPE_CHECKING."
            ) from None

    def _explain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        try:
            Signature(self.all).bind(*args, **kwargs)
        except TypeError as error:
            told = f"The task {self.task!r} cannot be called so: {error}."
            renamed = (RENAMED.get(name, name) for name in kwargs if name not in self.names)
            if option := next((name for name in renamed if name in CHECKS), None):
                told += (
                    f" If you mean the option {option}, it goes with the task: "
                    f"task.options({option}=…)."
                )
            raise TypeError(told) from None
        raise TypeError(f"The task {self.task!r} got two values for one name.")

    def _arguments(self, given: list[Parameter]) -> list[Parameter]:
        """The arguments of a job, of what the handler takes beside the context."""
        for one in given:
            if one.kind is Parameter.VAR_POSITIONAL:
                raise Misuse(
                    f"The task {self.task} takes *{one.name}, and the arguments of a job are "
                    "stored by name. Take a list instead."
                )
        return given

    def _is_context(self, first: Parameter) -> bool:
        if first.kind not in BY_POSITION:
            return False
        try:
            hint = _resolved(self.fn, first)
        except Exception:
            # A type that is defined later is no context; one that is not imported is a mistake.
            name = self.context.__name__
            if str(first.annotation).rpartition(".")[2] == name:
                raise Misuse(
                    f"The annotation {first.annotation!r} of {first.name}, the first parameter of "
                    f"the task {self.task}, cannot be looked up. Import the class {name} in the "
                    "task's module, and not only under TYPE_CHECKING."
                ) from None
            return False
        return isinstance(hint, type) and issubclass(hint, self.context)


def _resolved(fn: Callable[..., Any], parameter: Parameter) -> Any:
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    names = getattr(inspect.unwrap(fn), "__globals__", {})
    return typing.get_type_hints(holder, names, include_extras=True)[parameter.name]
