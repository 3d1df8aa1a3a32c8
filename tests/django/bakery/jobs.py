"""Jobs that use the ORM, in threads and on the loop."""

import logging
import os
import threading

from asgiref.sync import sync_to_async
from django.db import connection

from penstock import Context
from penstock.integrations.django import app
from tests.django.bakery.models import Bread

OVENS = threading.Barrier(2, timeout=10)


@app.task
def bake(name: str) -> int:
    return Bread.objects.create(name=name).pk


@app.task(queue="oven")
async def bake_async(name: str) -> int:
    return (await Bread.objects.acreate(name=name)).pk


@app.task
def backend_of_thread() -> int:
    """Which process of Postgres serves this thread."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


@app.task
async def backend_of_coroutine() -> int:
    return await sync_to_async(backend_of_thread.fn)()


@app.task
async def meet() -> None:
    """Two of these end only if both of their threads run at once."""
    await sync_to_async(OVENS.wait)()


@app.task
async def add(one: int, other: int) -> int:
    return one + other


@app.task
def bake_once(ctx: Context, name: str) -> None:
    """The bread and the job's end in one transaction."""
    from django.db import transaction

    with transaction.atomic():
        Bread.objects.create(name=name)
        ctx.sync.complete(connection, result=name)


@app.task(isolate=True)
def bake_aside(name: str) -> list[int]:
    """In a process of its own: which one, and which process of Postgres serves it."""
    logging.getLogger("bakery").warning("%s is baked", name)
    Bread.objects.create(name=name)
    return [os.getpid(), backend_of_thread()]
