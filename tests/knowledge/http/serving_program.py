"""A server of its own process, to look at from outside: it prints its address."""

import asyncio
import sys

from penstock import Penstock
from penstock.service import Service
from penstock_apps.knowledge.knowledge import Knowledge
from tests.fixtures.service import OpenDoor, serving


async def main(url: str) -> None:
    app = Penstock(url)
    Knowledge(app)
    async with Service(app, door=OpenDoor()) as service, serving(service) as address:
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
