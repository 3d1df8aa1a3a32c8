"""Connections that close within a second, even if the server is frozen."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import asyncpg

logger = logging.getLogger("penstock")

# A healthy server confirms within milliseconds that it has cancelled a statement.
CANCEL_TIMEOUT_S = 0.4
CLOSE_TIMEOUT_S = 0.5


class BoundedConnection(asyncpg.Connection):
    """A connection that needs at most half a second to cancel a statement, or to close.

    To cancel a statement, asyncpg opens another connection, sends the request there, and waits for
    the server to confirm it. A release, a rollback or a close waits for the confirmation as well.
    asyncpg itself waits up to a minute, and no timeout of the caller ends that wait.
    """

    # The host and port of the server, if the URL names several.
    served_by: tuple[str, int] | None = None

    async def _cancel(self, *waiters: Any) -> None:
        async with asyncio.timeout(CANCEL_TIMEOUT_S) as limit:
            await super()._cancel(*waiters)  # type: ignore[misc]
        # asyncpg takes this timeout for the end of the connection, and raises nothing.
        if limit.expired():
            self.terminate()

    async def close(self, *, timeout: float | None = None) -> None:
        """Close the connection, by force if the server does not confirm the close in time."""
        with suppress(OSError):
            await super().close(timeout=CLOSE_TIMEOUT_S if timeout is None else timeout)


async def close_pool(pool: asyncpg.Pool[asyncpg.Record], seconds: float) -> None:
    """Close a pool once all its connections are returned, or by force after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await pool.close()
    except TimeoutError:
        logger.warning("Connections were still in use after %g s and have been cut off.", seconds)
    except Exception as error:
        logger.warning("Connections could not be closed and have been cut off: %r", error)
    finally:
        pool.terminate()
