"""Functions that return work instead of doing it."""

from collections.abc import Awaitable, Coroutine


def unawaited(who: str, value: Awaitable[object], remedy: str) -> str:
    """Say that `who` returned what should have been awaited; it never will be."""
    if isinstance(value, Coroutine):
        value.close()  # Or Python warns of it, wherever the garbage collector finds it.
    return (
        f"{who} returned a {type(value).__name__} that nobody has awaited, so its work is not "
        f"done: {remedy}."
    )
