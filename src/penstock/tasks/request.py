"""A request for a job: its task, arguments and options, checked and encoded."""

from typing import Generic, TypeVar

from msgspec import Struct

from penstock.tasks.options import Options

T_co = TypeVar("T_co", covariant=True)


# A bulk enqueue makes hundreds of thousands of requests. They are never part of a reference cycle,
# so the garbage collector need not track them.
class Request(Struct, Generic[T_co], frozen=True, gc=False):
    """A task with its arguments, ready to be enqueued. Make it with `task.prepare(…)`.

    A request holds no connection and no app, so it can be made anywhere, and enqueued in bulk with
    `app.enqueue_many`. T is the type that the handler returns.
    """

    task: str
    args: str
    args_version: int
    options: Options
    fingerprint: bytes | None = None
    """What two uses of one idempotency key must have in common. None: the task and arguments."""
