"""Hybrid search: one call to Postgres for each group of editions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock_apps.knowledge.search.fusion import fuse
from penstock_apps.knowledge.search.hit import Hit
from penstock_apps.knowledge.search.query import Group, Query
from penstock_apps.knowledge.store.tables import Connection, TablePool


class Searching:
    """Finds what is published."""

    def __init__(self, tables: TablePool) -> None:
        self._call = tables.call

    async def search(
        self, on: Connection, tenant: str, groups: Sequence[Group], query: Query
    ) -> list[Hit]:
        """The best hits of all groups: as many as asked for, if there are so many."""
        if not groups or not query.text.strip():
            return []
        filters = msgspec.json.encode(query.filters).decode()
        rankings = []
        for group in groups:
            rows = await on.fetch(
                self._call("search"),
                tenant,
                list(group.editions),
                group.vector,
                query.text,
                query.k,
                filters,
                query.mode if group.vector is not None else "words",
            )
            rankings.append([Hit(**row) for row in rows])
        return fuse(rankings, query.k)
