"""Retries while the server accepts no more connections."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.errors import DatabaseError
from penstock.store import errors
from penstock.telemetry import DatabaseBack, DatabaseGone, Events
from penstock.worker.timing import DEFAULT_TIMING

T = TypeVar("T")

logger = logging.getLogger("penstock.worker")

TOO_MANY_CONNECTIONS = "53300"


async def retry_while_full(
    ask: Callable[[], Awaitable[T]],
    events: Events,
    seconds: float | None = None,
    on_refusal: Callable[[Exception], object] = lambda _: None,
    *,
    retry: float = DEFAULT_TIMING.connection_retry,
) -> T:
    """Call `ask`, and retry while the server accepts no more connections, within these seconds.

    The first refusal is logged as a warning, and the last one is raised. `on_refusal` is called
    with each refusal, so that idle connections can be closed. If many processes kept a first
    connection while they waited for a second one, none of them could ever work.
    """
    began = time.monotonic()
    has_warned = False
    cancels = errors.cancels()
    while True:
        try:
            result = await ask()
        except Exception as error:
            errors.raise_if_cancelled(error, cancels)
            pause = retry * (0.5 + random.random())
            is_over = seconds is not None and time.monotonic() - began + pause >= seconds
            if is_over or not is_too_many_connections(error):
                raise
            on_refusal(error)
            if not has_warned:
                has_warned = True
                why = errors.why(error)
                events.emit(DatabaseGone("connection", why))
                logger.warning("The worker waits for a connection: %s.", why)
            await asyncio.sleep(pause)
        else:
            if has_warned:
                waited = time.monotonic() - began
                logger.warning("The worker has a connection after %.1f s.", waited)
                events.emit(DatabaseBack(waited))
            return result


def is_too_many_connections(error: BaseException) -> bool:
    """Return whether the server refused a connection because its connection limit is reached."""
    if isinstance(error, DatabaseError):
        return error.sqlstate == TOO_MANY_CONNECTIONS
    return errors.is_state(error, TOO_MANY_CONNECTIONS)
