"""Which dead letters: the same filters for looking and for changing."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any

from penstock.cli.filters import option
from penstock.cli.moment import past


@dataclass(frozen=True)
class Letters:
    """Failed jobs that agree in all that is given."""

    queue: Annotated[str | None, option("Jobs of this queue.")] = None
    task: Annotated[str | None, option("Jobs of this task, by its name.")] = None
    tenant: Annotated[str | None, option("Jobs of this tenant.")] = None
    subject: Annotated[str | None, option("Jobs about this, such as document:42.")] = None
    tag: Annotated[str | None, option("Jobs with this tag.")] = None
    reason: Annotated[
        str | None,
        option("Jobs given up for this reason: exhausted, discarded, poison, worker_lost, …"),
    ] = None
    error: Annotated[
        str | None, option("Jobs whose last error is of this type, such as ValueError.")
    ] = None
    batch: Annotated[str | None, option("Jobs of this batch.", metavar="ID")] = None
    since: Annotated[
        datetime | None,
        option("Jobs that failed since then: 2h, 7d or a time.", parser=past, metavar="WHEN"),
    ] = None
    until: Annotated[
        datetime | None,
        option("Jobs that failed before then: 2h, 7d or a time.", parser=past, metavar="WHEN"),
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """What is given, as the client takes it."""
        all_of_them = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in all_of_them.items() if value is not None}
