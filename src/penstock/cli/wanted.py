"""Which dead letters are to change, and how many of them at what pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import typer

from penstock.cli.changing import jobs_of
from penstock.cli.letters import Letters
from penstock.cli.opening import Reached
from penstock.cli.words import length
from penstock.groups.failed import DeadSummary
from penstock.rate import per_second
from penstock.wording import counted

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters are to change, and how."""

    ids: list[str]
    letters: Letters
    limit: int | None
    rate: str | None = None

    @classmethod
    def of(
        cls,
        ids: Sequence[str] | None,
        letters: Letters,
        limit: int | None,
        *,
        everything: bool,
        rate: str | None = None,
    ) -> Wanted:
        by_filter = bool(letters.given) and not (ids and letters.given.keys() == {"tenant"})
        if [bool(ids), by_filter, everything].count(True) != 1:
            raise typer.BadParameter(
                "name the jobs by their ids, or by at least one filter, or say --all; only one of "
                "them, except that --tenant goes with ids"
            )
        if rate is not None:
            per_second("rate", rate)
        return cls(list(dict.fromkeys(ids or ())), letters, limit, rate)

    @property
    def options(self) -> dict[str, Any]:
        """What the client is asked for beside the ids: a filter for all, if none is given."""
        which = {} if self.ids else self.letters.given or {"since": BEGINNING}
        return which | {"limit": self.limit}

    async def own_ids(self, queue: Reached) -> list[str]:
        """Those of the ids that are the tenant's, if one is named."""
        if self.letters.tenant is None:
            return self.ids
        own = await jobs_of(queue, self.ids, self.letters.tenant)
        return [job for job in self.ids if job in own]

    def number_of(self, found: DeadSummary) -> str:
        """How many it is about, as far as they were counted."""
        if self.limit is not None and self.limit <= found.number:
            return f"{counted(self.limit, 'job')}, the longest dead of them,"
        return f"{counted(found.number, 'job')}{'' if found.is_exact else ' and more'}"

    def pace_of(self, found: DeadSummary) -> str:
        """How fast they come back, and over how long; nothing if all come at once."""
        if self.rate is None or not found.number:
            return ""
        number = min(found.number, self.limit or found.number)
        least = "" if found.is_exact or self.limit else " or more"
        return f" at {self.rate}, over {length(number / per_second('rate', self.rate))}{least}"
