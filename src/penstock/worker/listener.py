"""Listens to the database's notifications: new jobs, due times, signals, a missing leader.

Notifications only save time. Without them, the worker finds everything a little later. Behind a
pooler that delivers no notifications, the worker polls more often instead.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from penstock.lifecycle import DatabaseHealth, Service
from penstock.store import Connection, Pool, Store, connect, receives_notifications

logger = logging.getLogger("penstock.listener")

PROBE_INTERVAL_S = 15.0
# Behind a pooler that delivers nothing, this is unlikely to change soon.
NO_NOTIFICATIONS_PAUSE_S = 600.0
NO_NOTIFICATIONS = (
    "Notifications do not reach this worker: a pooler in transaction mode, such as PgBouncer, "
    "keeps them, or the listen_url leads to another database. The worker finds new jobs by "
    "polling. To be notified at once, set listen_url or PENSTOCK_LISTEN_URL to Postgres's own "
    "address."
)


class Listener(Service):
    """One connection that listens, and is opened again whenever it breaks."""

    name = "listener"

    def __init__(self, url: str, pool: Pool, store: Store, health: DatabaseHealth) -> None:
        super().__init__(health)
        self._url = url
        self._pool = pool
        self._store = store
        self._connection: Connection | None = None
        self.on_ready: Callable[[str, str | None, int, datetime], None] = lambda *_: None
        self.on_due: Callable[[datetime], None] = lambda _: None
        self.on_signal: Callable[[int], None] = lambda _: None
        self.on_settings: Callable[[], None] = lambda: None
        self.on_schedules: Callable[[], None] = lambda: None
        self.on_grants: Callable[[str], None] = lambda _: None
        self.on_waits: Callable[[str], None] = lambda _: None
        self.on_bucket: Callable[[str, float], None] = lambda *_: None
        self.on_leader: Callable[[], None] = lambda: None
        self.on_reconnect: Callable[[], None] = lambda: None

    @property
    def is_listening(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def tick(self) -> float:
        if self._connection is None:
            self._connection = await self._listen()
            if self._connection is None:
                return NO_NOTIFICATIONS_PAUSE_S
            self.on_reconnect()
        try:
            await self._connection.execute("SELECT 1", timeout=PROBE_INTERVAL_S)
        except BaseException:
            self._drop()
            raise
        return PROBE_INTERVAL_S

    async def _listen(self) -> Connection | None:
        """Open a connection that listens; return None if no notification reaches it."""
        connection = await connect(self._url, name="penstock listener")
        try:
            if not await receives_notifications(connection, self._pool):
                logger.info(NO_NOTIFICATIONS)
                connection.terminate()
                return None
            for channel, handler in self._channels().items():
                await connection.add_listener(self._store.channel(channel), handler)
        except BaseException:
            connection.terminate()
            raise
        connection.add_termination_listener(lambda _: self.wake())
        return connection

    def _channels(self) -> dict[str, Callable[[Any, int, str, Any], None]]:
        return {
            "ready": self._handle_ready,
            "due": self._handle_due,
            "signal": self._handle_signal,
            "leader": lambda *_: self.on_leader(),
            "settings": lambda *_: self.on_settings(),
            "schedules": lambda *_: self.on_schedules(),
            "grants": lambda *handler: self.on_grants(str(handler[-1])),
            "waits": lambda *handler: self.on_waits(str(handler[-1])),
            "buckets": self._handle_bucket,
        }

    def _handle_due(self, connection: Any, pid: int, channel: str, payload: Any) -> None:
        with suppress(ValueError, OverflowError):
            self.on_due(datetime.fromtimestamp(float(payload), UTC))

    def _handle_ready(self, connection: Any, pid: int, channel: str, payload: Any) -> None:
        try:
            queue, lane, priority, epoch = json.loads(payload)
            ready_at = datetime.fromtimestamp(float(epoch), UTC)
        except (ValueError, TypeError, OverflowError):
            logger.warning("A notification could not be read: %.200r", payload)
            return
        self.on_ready(queue, lane, priority, ready_at)

    def _handle_bucket(self, connection: Any, pid: int, channel: str, payload: Any) -> None:
        with suppress(ValueError, TypeError):
            key, seconds = json.loads(payload)
            self.on_bucket(str(key), float(seconds))

    def _handle_signal(self, connection: Any, pid: int, channel: str, payload: Any) -> None:
        if str(payload).isdigit():
            self.on_signal(int(payload))

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def stop(self) -> None:
        try:
            await super().stop()
        finally:
            # Close it even if whoever waits for this gives up.
            self._drop()
        # Lets asyncpg finish with the broken transport.
        await asyncio.sleep(0)
