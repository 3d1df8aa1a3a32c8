"""A worker of the project, for as long as there is something to do."""

import asyncio
from typing import Any

from penstock import Tally
from penstock.integrations.django import app
from tests.fixtures.worker import worker_of


def work_off(*queues: str, slots: int = 2, **settings: Any) -> Tally:
    """Work off some queues; the default one and the oven's unless named."""

    async def drain() -> Tally:
        named = dict.fromkeys(queues or ("default", "oven"), slots)
        try:
            return await worker_of(app, named, name="baker", **settings).drain()
        finally:
            await app.close()

    return asyncio.run(drain())
