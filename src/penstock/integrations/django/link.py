"""The way to the database of Django's connection."""

from __future__ import annotations

from dataclasses import replace

from django.db import connections

from penstock.client import Link
from penstock.config import Database
from penstock.integrations.django.address import address_of
from penstock.store import Pool

NOT_ASKED_YET = "postgresql://"


class ProjectLink(Link):
    """Leads where Django's connection leads at the moment it is opened: tests have their own."""

    def __init__(self, database: Database, alias: str) -> None:
        super().__init__(database)
        self._alias = alias
        self._is_led_elsewhere = False

    def lead_to(self, database: Database) -> None:
        self._is_led_elsewhere = database.url != self.database.url
        super().lead_to(database)

    @property
    def url(self) -> str:
        self._follow()
        return super().url

    async def pool(self) -> Pool:
        self._follow()
        return await super().pool()

    def _follow(self) -> None:
        if self._pool is None and not self._is_led_elsewhere:
            self.database = replace(self.database, url=address_of(connections[self._alias]))
