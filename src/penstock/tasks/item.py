"""One job among those that share a call of a handler."""

from typing import Generic, TypeVar

from penstock.tasks.context import Context

T = TypeVar("T")
V_co = TypeVar("V_co", covariant=True)

NO_JOB = (
    "This item was made with Item.of and belongs to no job, so it has no ctx. To run the handler "
    "with one: penstock.testing.run(task, value), or Item.of(value, ctx)."
)


class Item(Generic[V_co]):
    """A job's argument, and the job's own context.

    A test that calls the handler itself makes them with `Item.of`:

        vectors = await embed([Item.of("one"), Item.of("two")])
    """

    __slots__ = ("_ctx", "_value")

    def __init__(self, value: V_co, ctx: Context | None) -> None:
        self._value = value
        self._ctx = ctx

    @staticmethod
    def of(value: T, ctx: Context | None = None) -> "Item[T]":
        """An item that belongs to no job, unless a context is given."""
        return Item(value, ctx)

    @property
    def value(self) -> V_co:
        """What the job was enqueued with."""
        return self._value

    @property
    def ctx(self) -> Context:
        """The context of this job alone: its attempt, cancellation, progress, fence, steps."""
        if self._ctx is None:
            raise RuntimeError(NO_JOB)
        return self._ctx

    def __repr__(self) -> str:
        return f"<Item {self._value!r}>"
