"""What `penstock top` does."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from penstock.cli.opening import Reached, plain_errors, reached
from penstock.cli.output import Output, terminal
from penstock.cli.screens.top import Glance, Screen
from penstock.cli.where import Where
from penstock.errors import PenstockError

LEAVE = frozenset("qQ\x04")  # the last one is Ctrl-D
ESCAPE = "\x1b"  # also the beginning of arrows and their like


async def glance(where: Where, output: Output) -> None:
    """One picture."""
    async with reached(where) as queue:
        overview = await queue.insights.overview()
    console = terminal()
    picture = Screen(queue.app.database).draw(Glance(overview))
    output.show(overview, lambda: picture.whole(console.width))


async def watch(where: Where, every: float) -> None:
    """One picture after the other, until somebody presses q."""
    async with reached(where) as queue:
        console = terminal()
        leave = asyncio.Event()
        with _keys(leave), Live(console=console, screen=True, auto_refresh=False) as live:
            await _draw_until(leave, queue, every, console, live)


async def _draw_until(
    leave: asyncio.Event, queue: Reached, every: float, console: Console, live: Live
) -> None:
    screen = Screen(queue.app.database)
    while not leave.is_set():
        try:
            with plain_errors(queue.app.database):
                glance = Glance(await queue.insights.overview())
        except PenstockError as error:
            glance = Glance(None, str(error))
        live.update(screen.draw(glance).fitted(console.width, console.height), refresh=True)
        try:
            async with asyncio.timeout(every):
                await leave.wait()
        except TimeoutError:
            pass


@contextmanager
def _keys(leave: asyncio.Event) -> Iterator[None]:
    """Keys one by one, without being shown; as before at the end."""
    if not sys.stdin.isatty():
        yield
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        keys = os.read(stdin, 64).decode(errors="ignore")
        if not keys or keys == ESCAPE or LEAVE & set(keys):
            leave.set()

    tty.setcbreak(stdin)
    loop.add_reader(stdin, pressed)
    try:
        yield
    finally:
        loop.remove_reader(stdin)
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
