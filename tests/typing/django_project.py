"""What type checkers must know of the calls of a Django project.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from typing import assert_type

from penstock import Context, Enqueued
from penstock.integrations.django import aenqueue, app, enqueue, enqueue_many


@app.task
def send(ctx: Context, order: int, *, copies: int = 1) -> str:
    return f"{order} {copies}"


def view() -> None:
    assert_type(enqueue(send, 42, copies=2), Enqueued[str])
    assert_type(enqueue_many([send.prepare(42)]), list[Enqueued[str]])
    assert_type(app.sync.enqueue(send, 42), Enqueued[str])
    assert_type(app.sync.wait(enqueue(send, 42)), str)
    enqueue(send, "42")  # type: ignore[arg-type]
    enqueue(send.options(delay=60), 42)


async def async_view() -> None:
    assert_type(await aenqueue(send, 42), Enqueued[str])
    assert_type(await app.enqueue(send, 42), Enqueued[str])
