"""Tasks of django.tasks, one for each thing that can become of them."""

import asyncio

from django.tasks import TaskContext, task

from penstock.integrations.django.tasks import PenstockBackend
from tests.django.bakery.models import Bread

assert PenstockBackend.supports_get_result


@task
def knead(*args, **kwargs):
    return None


@task()
async def knead_async(*args, **kwargs):
    return None


@task
def weigh():
    return 42


@task
async def weigh_async():
    await asyncio.sleep(0)
    return {"grams": [42, None]}


@task
def bake(name):
    return Bread.objects.create(name=name).pk


@task
async def bake_async(name):
    return (await Bread.objects.acreate(name=name)).pk


@task
def burn():
    raise ValueError("This bread is burnt")


@task
async def burn_async():
    raise ValueError("This bread is burnt")


@task
def leave():
    raise SystemExit("The baker leaves")


@task
def interrupt():
    raise KeyboardInterrupt("Somebody knocks")


@task
def burn_oddly():
    raise ValueError(ValueError("Both are burnt"))


@task
def give_a_function():
    return lambda: True


@task
def echo(value):
    return value


@task(takes_context=True)
def look(context):
    assert isinstance(context, TaskContext)
    result = context.task_result
    return [result.id, context.attempt, result.status, result.worker_ids, result.backend]


@task(takes_context=True, backend="patient")
def succeed_at(context, attempt):
    if context.attempt < attempt:
        raise ValueError(f"attempt {context.attempt}")
    return context.attempt


@task(queue_name="oven", priority=7)
def preheat():
    return "hot"


@task(backend="patient", max_attempts=2, timeout=5)
def try_twice():
    raise ValueError("Twice is enough")


@task(timeout=0.1)
async def rise():
    await asyncio.Event().wait()


@task(backend="immediate")
def at_once():
    return "done"


ORDER = []


@task
def note(name):
    ORDER.append(name)
