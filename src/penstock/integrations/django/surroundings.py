"""What happens around each handler and each call: the care that Django takes around a request.

Django's connections belong to threads. A worker's threads live long, so a connection that the
database has ended, or that is older than CONN_MAX_AGE, is closed before and after each job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries

from penstock.local_pool.submitted import SubmittedCall
from penstock.tasks import Registry, Task

AnyTask = Task[..., Any]

# Django's connections that outlive a job; a thread ends without closing its own.
_kept: set[Any] = set()


class ProjectTasks(Registry):
    """Tasks whose handlers run as Django's code expects; what users call directly stays as is."""

    def add(self, *tasks: AnyTask) -> None:
        super().add(*map(self.around, tasks))

    def around(self, task: AnyTask) -> AnyTask:
        known = self.find(task.name)
        return known if known is not None and known.is_same(task) else surrounded(task)


def surrounded(task: AnyTask) -> AnyTask:
    """The task with Django's care around its handler."""
    return task.handled_by(_async(task.fn) if task.is_async else _blocking(task.fn))


def surround(call: SubmittedCall) -> None:
    """The same care around a call of a local pool."""
    call.fn = _async(call.fn) if call.is_async else _blocking(call.fn)


def _blocking(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    def run(*args: Any, **kwargs: Any) -> Any:
        with usable_connections():
            return handler(*args, **kwargs)

    return run


def _async(handler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(handler)
    async def run(*args: Any, **kwargs: Any) -> Any:
        async with own_thread():
            return await handler(*args, **kwargs)

    return run


@contextmanager
def usable_connections() -> Iterator[None]:
    """No connection of this thread is one that is past its time, or broken."""
    close_old_connections()
    reset_queries()
    try:
        yield
    finally:
        close_old_connections()
        _kept.update(each for each in connections.all(initialized_only=True) if each.connection)


def close_kept_connections() -> None:
    """Close what CONN_MAX_AGE has kept open in the threads of workers that are gone."""
    while _kept:
        connection = _kept.pop()
        connection.inc_thread_sharing()
        connection.close()


@asynccontextmanager
async def own_thread() -> AsyncIterator[None]:
    """What is awaited of the ORM runs in a thread of this job's own, as in a request under ASGI.

    Otherwise all async jobs of the process would wait for one thread. It costs nothing where the
    ORM is not used.
    """
    async with ThreadSensitiveContext() as context:
        try:
            yield
        finally:
            if context in SyncToAsync.context_to_thread_executor:
                await sync_to_async(connections.close_all)()
