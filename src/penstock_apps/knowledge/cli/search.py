"""`penstock search`: what the knowledge says."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where
from penstock_apps.knowledge.cli.options import ALONE, BaseName, Tenant, expect_knowledge


@examples(
    'penstock search "how do I rotate the keys?"',
    'penstock search "vacuum" -k 10 --base manuals --json',
)
@spread
def search(
    *,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Words, or a question.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many results.")] = 5,
    tenant: Tenant = ALONE,
    base: BaseName = ALONE,
    where: Where,
    output: Output,
) -> None:
    """Find what documents say about something."""
    expect_knowledge()
