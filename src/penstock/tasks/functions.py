"""What a task can be made of: a function. For anything else the error says what to write."""

import inspect
from functools import partial
from typing import Any

from penstock.errors import Misuse

WRITE = "Write a function (def or async def) that calls it, and put @app.task on that."


def check_function(fn: Any) -> None:
    """Raise Misuse unless this is a function whose jobs a worker can run."""
    if not inspect.isfunction(fn):
        raise Misuse(_why_not(fn))
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise Misuse(
            f"{fn.__qualname__} is a generator, and a task returns its result: return a list "
            "instead of yielding, or enqueue a job for each part."
        )
    for place, parameter in enumerate(inspect.signature(fn).parameters.values()):
        if parameter.annotation is parameter.empty:
            _check_bare(fn, parameter.name, is_first=place == 0)


def _check_bare(fn: Any, name: str, *, is_first: bool) -> None:
    """Raise Misuse for a bare `self`, `cls` or `ctx`: these are not arguments of a job."""
    if is_first and name in ("self", "cls"):
        raise Misuse(
            f"{fn.__qualname__} is a method: its first parameter is {name}, and a job has no "
            "object to pass there. Write a function that loads the object, such as by its id, and "
            "put @app.task on that. If the parameter is meant for the context of the attempt, "
            "write `ctx: Context` (from penstock import Context)."
        )
    if name == "ctx":
        place = "The first parameter" if is_first else "A parameter"
        raise Misuse(
            f"{place} of {fn.__qualname__} is called ctx and has no annotation, so each job would "
            "need an argument of that name. Write `ctx: Context` (from penstock import Context), "
            "as the first one, for the context of the attempt, or give an argument another name."
        )


def _why_not(fn: Any) -> str:
    from penstock.tasks.task import Task

    match fn:
        case Task():
            return f"{fn.name} is a task already. Let @app.task stand above it once."
        case str():
            return (
                f"@app.task stands above a function, and was given the text {fn!r}. To name a "
                f"task, write @app.task(name={fn!r})."
            )
        case staticmethod() | classmethod():
            return (
                f"@app.task cannot stand above @{type(fn).__name__}. Put it on a function outside "
                "the class."
            )
        case type():
            return f"A task is made of a function, and {fn.__qualname__} is a class. {WRITE}"
        case partial():
            return f"A task is made of a function, and this is a functools.partial. {WRITE}"
    if inspect.ismethod(fn):
        return (
            f"{fn.__qualname__} is a method that is bound to an object, and a worker has no such "
            "object. Write a function that loads the object, such as by its id, and put "
            "@app.task on that."
        )
    what = getattr(fn, "__qualname__", None) or f"of type {type(fn).__qualname__}"
    return f"A task is made of a function, and this is {what}, which is none. {WRITE}"
