"""Servers and workers as processes of their own, forked from one that has imported all they need.

`python -m tests.service.live_program URL` reads `serve PORT` or `work` and answers with a pid.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from penstock import Penstock, task
from penstock.service import Service
from penstock.service.server import HttpServer, bind_socket
from penstock.tasks import Context
from tests.fixtures.live import KnownByName
from tests.fixtures.worker import worker_of


@task
async def held(ctx: Context, until: str) -> str:
    """A job that lasts until there is a file."""
    while not Path(until).exists():  # noqa: ASYNC240 - of another process
        ctx.progress(1, 2, "waiting")
        await asyncio.sleep(0.02)
    return "released"


@task
async def quick(number: int) -> int:
    return number


async def serve(app: Penstock, port: int) -> None:
    async with Service(
        app, door=KnownByName(), ticket_secret="shared by two servers of the tests"
    ) as service:
        server = HttpServer(service, bind_socket("127.0.0.1", port))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.ask_to_stop)
        await server.run()


async def work(app: Penstock) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with app, worker_of(app, {"default": 20}):
        await stopping.wait()


def run(url: str, what: str, port: str = "0") -> None:
    app = Penstock(url, include=[held, quick])
    asyncio.run(serve(app, int(port)) if what == "serve" else work(app))


if __name__ == "__main__":
    for line in sys.stdin:
        if pid := os.fork():
            print(pid, flush=True)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is not waited for
        else:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                run(sys.argv[1], *line.split())
            finally:
                os._exit(0)
