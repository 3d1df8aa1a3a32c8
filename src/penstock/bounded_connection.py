"""A connection that closes within half a second, even if the server is frozen."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import asyncpg

# A healthy server confirms within milliseconds that it has cancelled a statement.
CANCEL_TIMEOUT = 0.4
CLOSE_TIMEOUT = 0.5


class BoundedConnection(asyncpg.Connection):
    """Cancelling a statement, and closing, take half a second at most.

    To cancel a statement asyncpg opens another connection, asks there for the cancellation, and
    waits for the server to confirm it; whoever releases, rolls back or closes waits as well. It
    waits for a minute, and nobody's timeout holds meanwhile.
    """

    # The host and port that it leads to, where the address names several.
    served_by: tuple[str, int] | None = None

    async def _cancel(self, *waiters: Any) -> None:
        async with asyncio.timeout(CANCEL_TIMEOUT) as limit:
            await super()._cancel(*waiters)  # type: ignore[misc]
        # It takes the end of its time for the end of the connection, and raises nothing.
        if limit.expired():
            self.terminate()

    async def close(self, *, timeout: float | None = None) -> None:
        """Close the connection, by force if the server does not confirm it in time."""
        with suppress(TimeoutError):
            await super().close(timeout=CLOSE_TIMEOUT if timeout is None else timeout)
