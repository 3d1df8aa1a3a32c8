"""A worker process with children: python -m tests.isolation.program '{"url": …, "name": …, …}'."""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import uvloop

from penstock import Liveness, Penstock
from tests.isolation import jobs
from tests.isolation.worker import isolating


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All that it is told."""

    url: str
    name: str
    folder: str
    children: int = 3
    lease: float = 3.0


async def main(settings: Settings) -> None:
    liveness = Liveness(heartbeat=0.2, lease=settings.lease)
    async with Penstock(settings.url, include=[jobs]) as app:
        worker = isolating(app, children=settings.children, liveness=liveness)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.ask_to_stop)
        await worker.run(lambda: is_ready(Path(settings.folder) / "ready", settings.name))


def is_ready(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).touch()


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Settings)))
