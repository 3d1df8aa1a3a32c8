"""What is given where a task belongs, and what to write instead."""

import inspect
from typing import Any

from penstock.tasks.request import Request


def not_a_task(who: str, given: Any) -> str:
    """Why this is no task, for an error of `who` wants one: "enqueue", "A schedule"."""
    takes = f"{who} takes a task"
    if inspect.iscoroutine(given):
        given.close()  # Otherwise Python warns that nobody has awaited it.
        return (
            f"{takes}, not {given.__name__}(…), which is called already. Pass {given.__name__} "
            "itself; its arguments come behind it, or with task.prepare(…)."
        )
    if isinstance(given, Request):
        return f"{takes} with its arguments. A request is enqueued with enqueue_many([request])."
    if isinstance(given, str):
        return (
            f"{takes}, not the text {given!r}. Import the task and pass that; app.tasks.get finds "
            "one of this app by its name."
        )
    if callable(given):
        name = getattr(given, "__qualname__", repr(given))
        return f"{takes}, not {name}: decorate it with @app.task."
    return (
        f"{takes}, not {given!r}. If this is what the task returned, pass the task itself; its "
        "arguments come behind it, or with task.prepare(…)."
    )
