"""A task that takes its process along."""

import os

from penstock import Process, task


@task(isolate=Process(deaths=1))
async def die() -> None:
    os._exit(3)
