"""Connections that close in time, even if the server is frozen."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import asyncpg

logger = logging.getLogger("penstock")

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
        """Close the connection, by force if the server does not confirm it in time, or is gone."""
        with suppress(OSError):
            await super().close(timeout=CLOSE_TIMEOUT if timeout is None else timeout)


async def close_pool(pool: asyncpg.Pool[asyncpg.Record], seconds: float) -> None:
    """Close a pool once its connections are returned; cut off those that are not in time."""
    try:
        async with asyncio.timeout(seconds):
            await pool.close()
    except TimeoutError:
        logger.warning("Connections were still in use after %g s and have been cut off.", seconds)
    except Exception as error:
        logger.warning("Connections could not be closed and have been cut off: %r", error)
    finally:
        pool.terminate()
