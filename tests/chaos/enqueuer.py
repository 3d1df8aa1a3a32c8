"""An enqueuing process, which is told `{"url": …, "name": …, "folder": …}`.

Enqueues a mix of all tasks that end by themselves, in small steps. Jobs with idempotency keys are
tried until they are acknowledged; the others are given up when an answer is lost.
"""

import asyncio
import logging
import random
import sys
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from penstock import Penstock, Request
from penstock.errors import DatabaseLost
from penstock.store import errors
from tests.chaos.app import make_app

MIX = ("note",) * 12 + ("slow",) * 3 + ("flaky",) * 2 + ("transfer",) * 3


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that an enqueuing process is told."""

    url: str
    name: str
    folder: str
    jobs: int
    seed: int
    step: int = 10
    pause: float = 0.02
    until: str | None = None  # A file: until it is there, more jobs come than these.


async def main(settings: Settings) -> None:
    rng = random.Random(settings.seed)
    app = make_app(settings.url, settings.name, Path(settings.folder))
    await opened(app)
    for start in count(0, settings.step):
        if start >= settings.jobs and not is_to_go_on(settings):
            break
        keyed = rng.random() < 0.7
        numbers = range(start, start + settings.step)
        requests = [request(app, f"{settings.name}:{n}", keyed, rng) for n in numbers]
        await enqueue(app, requests, keyed)
        await asyncio.sleep(settings.pause)
    await app.close()


def is_to_go_on(settings: Settings) -> bool:
    return settings.until is not None and not (Path(settings.folder) / settings.until).exists()


async def opened(app: Penstock) -> None:
    while True:
        try:
            await app.open()
            return
        except Exception as error:
            await pause_after(error)


async def enqueue(app: Penstock, requests: list[Request[Any]], keyed: bool) -> None:
    while True:
        try:
            await app.enqueue_many(requests)
            return
        except Exception as error:
            await pause_after(error)
            if not keyed:
                return


async def pause_after(error: Exception) -> None:
    """Only the loss of the database is to be expected here."""
    if not isinstance(error, DatabaseLost) and not errors.is_lost(error):
        raise error
    await asyncio.sleep(0.2)


def request(app: Penstock, key: str, keyed: bool, rng: random.Random) -> Request[Any]:
    task: Any = app.tasks.find(rng.choice(MIX))
    options = {"idempotency_key": key} if keyed else {}
    arguments = (rng.uniform(0.01, 0.05),) if task.name == "slow" else ()
    made: Request[Any] = task.options(subject=key, **options).prepare(*arguments)
    return made


def run(told: str) -> None:
    """All of the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    uvloop.run(main(msgspec.json.decode(told, type=Settings)))


if __name__ == "__main__":
    run(sys.argv[1])
