"""Ctrl-C, for commands that work themselves: once ends them in good order, twice at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from penstock.cli.errors import Interrupted
from penstock.worker.process import runner

T = TypeVar("T")


def alone(main: Coroutine[Any, Any, T], told: str) -> T:
    """Run a command that works itself: the process is its own, and runs as workers do.

    `told` says after Ctrl-C what becomes of what is half done.
    """
    own, presses = runner(), _Presses()
    try:
        try:
            return own.run(presses.watched(main))
        finally:
            # To close it is to wait for all that still runs.
            if not presses.is_hurried:
                own.close()
    except (Exception, asyncio.CancelledError) as error:
        # What breaks while it ends is nothing to tell.
        if presses.number:
            raise Interrupted(told, at_once=presses.is_hurried) from error
        raise


class _Presses:
    """Counts them, and passes on what they mean."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def is_hurried(self) -> bool:
        return self.number > 1

    async def watched(self, main: Coroutine[Any, Any, T]) -> T:
        """Run it, told of Ctrl-C from the very start, and until its loop is closed."""
        task = asyncio.ensure_future(main)
        # A shell's job in the background is meant to go on.
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            with suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._pressed, task)
        return await task

    def _pressed(self, task: asyncio.Task[Any]) -> None:
        self.number += 1
        if self.is_hurried:
            asyncio.get_running_loop().stop()
        else:
            task.cancel()
