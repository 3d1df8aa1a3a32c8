"""Functions that enqueue jobs in the open transaction of Django."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from penstock.connect.enqueue import Enqueued
from penstock.integrations.django.project import project_app
from penstock.tasks import Request, Task

P = ParamSpec("P")
T = TypeVar("T")


def enqueue(task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[T]:
    """Enqueue one job on Django's connection.

    Inside `transaction.atomic()` it is stored together with your changes, or not at all.

    enqueue(send_receipt.options(delay=60), order.pk)
    """
    return project_app().sync.enqueue(task, *args, **kwargs)


def enqueue_many(requests: Iterable[Request[T]]) -> list[Enqueued[T]]:
    """Enqueue many jobs in one statement, all or none. The results have the order of the requests.

    enqueue_many(send_receipt.prepare(order.pk) for order in orders)
    """
    return project_app().sync.enqueue_many(requests)


async def aenqueue(task: Task[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[T]:
    """Enqueue one job from an async view, on the connection that the view's ORM calls use."""
    return await sync_to_async(enqueue, thread_sensitive=True)(task, *args, **kwargs)


async def aenqueue_many(requests: Iterable[Request[T]]) -> list[Enqueued[T]]:
    """Enqueue many jobs from an async view, on the connection that the view's ORM calls use."""
    return await sync_to_async(enqueue_many, thread_sensitive=True)(requests)
