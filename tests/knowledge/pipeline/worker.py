"""A worker process: python -m tests.knowledge.pipeline.worker '{"url": …, "name": …, …}'."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from penstock import Liveness, Penstock
from penstock_apps.knowledge.knowledge import Knowledge
from tests.knowledge.scene import worker_of


async def main(settings: dict[str, Any]) -> None:
    app = Penstock(settings["url"])
    Knowledge(app)
    async with app, worker_of(app, liveness=Liveness()):
        ready = Path(settings["folder"]) / "ready"
        ready.mkdir(exist_ok=True)
        (ready / settings["name"]).touch()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
