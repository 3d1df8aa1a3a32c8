"""One prepared enqueue: all that a row needs, checked and encoded."""

from typing import Generic, TypeVar

from msgspec import Struct

from penstock.tasks.options import Options

T_co = TypeVar("T_co", covariant=True)


# A bulk enqueue makes hundreds of thousands of these. They are never part of a reference cycle, so
# the garbage collector need not track them.
class Request(Struct, Generic[T_co], frozen=True, gc=False):
    """A task with its arguments, ready to be enqueued; T is what the handler returns.

    It holds no connection and no app, so it can be made anywhere and enqueued in bulk.
    """

    task: str
    args: str
    args_version: int
    options: Options
    fingerprint: bytes | None = None
    """What another use of its idempotency key has to agree in; its task and arguments, if None."""
