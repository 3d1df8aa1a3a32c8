"""Penstock's backend in the places of Django's two, as far as Django's tests look into those."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.db import connection, connections
from django.tasks import TaskResult

from penstock.integrations.django import app
from penstock.integrations.django.tasks import PenstockBackend
from penstock.testing.databases import run_aside

T = TypeVar("T")


class Stored(PenstockBackend):
    """In the place of DummyBackend, which only keeps what is enqueued."""

    @property
    def results(self) -> list[TaskResult]:
        return [self.get_result(job.id) for job in _blocking(_jobs)]

    def get_result(self, result_id: str) -> TaskResult:
        return _blocking(super().get_result, result_id)

    def clear(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM penstock.job")
            cursor.execute("DELETE FROM penstock.job_history")


class Worked(PenstockBackend):
    """In the place of ImmediateBackend, which runs at once what is enqueued: a worker does."""

    def enqueue(self, *given: Any, **named: Any) -> TaskResult:
        result = super().enqueue(*given, **named)
        run_aside(_work_off())
        return self.get_result(result.id)


def _blocking(call: Callable[..., T], *given: Any) -> T:
    """Some tests block their event loop, which Django allows only to what needs no database."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call(*given)
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(call, *given).result()
        finally:
            thread.submit(connections.close_all).result()


def _jobs() -> list[Any]:
    return app.sync.list().jobs[::-1]


async def _work_off() -> None:
    try:
        async with asyncio.timeout(60):
            await app.worker().drain()
    finally:
        await app.close()
