"""The name under which a task's jobs are stored."""

import sys
from collections.abc import Callable
from pathlib import PurePath
from re import compile
from typing import Any, Final

TASK_NAME: Final = compile(r"[A-Za-z0-9_.:-]{1,200}")
# What a script is called in itself, and in the processes that it has started.
SCRIPT: Final = ("__main__", "__mp_main__")


def default_name(fn: Callable[..., Any]) -> str:
    """Return `module.function`; for a script, its file's name stands for the module.

    A script is `__main__` to itself, something else to a worker that imports it, and a third to
    child processes: its jobs should have one name in all.
    """
    qualname = fn.__qualname__.replace(".<locals>", "")
    module = fn.__module__
    return f"{_main_module(fn) if module in SCRIPT else module}.{qualname}"


def place_of(fn: Callable[..., Any]) -> str:
    """Return where a function is written, as file:line."""
    code = getattr(fn, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(fn)


def _main_module(fn: Callable[..., Any]) -> str:
    spec = getattr(sys.modules.get(fn.__module__), "__spec__", None)
    if spec is not None:
        return str(spec.name.removesuffix(".__main__"))
    file = getattr(fn, "__globals__", {}).get("__file__")
    return PurePath(file).stem if file else "main"
