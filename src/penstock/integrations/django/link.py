"""The way to the database of Django's connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from django.db import connections

from penstock.client import Link
from penstock.config import Database
from penstock.integrations.django.address import address_of
from penstock.integrations.django.surroundings import close_kept_connections
from penstock.store import Pool

NOT_ASKED_YET = "postgresql://"


class ProjectLink(Link):
    """Leads where Django's connection leads at the moment it is opened: tests have their own."""

    def __init__(self, database: Database, alias: str) -> None:
        super().__init__(database)
        self._alias = alias
        self._is_led_elsewhere = False

    def lead_to(self, database: Database) -> None:
        super().lead_to(database)
        self._is_led_elsewhere = database.url not in (NOT_ASKED_YET, self._address)

    @property
    def url(self) -> str:
        self._follow()
        return super().url

    async def pool(self) -> Pool:
        self._follow()
        return await super().pool()

    async def _close_others(self) -> None:
        """Close what handlers have kept open."""
        # Python may be ending: then it starts no more threads, and takes the connections along.
        with suppress(RuntimeError):
            await asyncio.to_thread(close_kept_connections)

    def _follow(self) -> None:
        if self._pool is None and not self._is_led_elsewhere:
            self.database = replace(self.database, url=self._address)

    @property
    def _address(self) -> str:
        return address_of(connections[self._alias])
