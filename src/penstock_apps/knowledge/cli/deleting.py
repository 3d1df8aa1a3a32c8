"""What `penstock knowledge delete` does."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from msgspec import Struct

from penstock.cli.options import Where, confirm
from penstock.cli.output import Output
from penstock.wording import counted
from penstock_apps.knowledge.cli.naming import Naming, described
from penstock_apps.knowledge.cli.opening import opened
from penstock_apps.knowledge.errors import BaseBroken
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base

What = Literal["document", "source", "base"]


class Doomed(Struct, frozen=True):
    """What is to be deleted, and how many documents go with it."""

    what: What
    id: int
    name: str
    told: str
    documents: int

    def __str__(self) -> str:
        if self.what == "document":
            return f"The document {self.told}"
        noun = "knowledge base" if self.what == "base" else "source"
        return f"The {noun} {self.told}, with {counted(self.documents, 'document')},"

    def as_document(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            "deleted": str(self.id),
            "what": self.what,
            "name": self.name,
            "documents": self.documents,
        }


def delete_named(
    what: What,
    name: str,
    tenant: str,
    base: str | None,
    where: Where,
    output: Output,
    *,
    yes: bool,
) -> None:
    """Delete it, after a question."""
    doomed = asyncio.run(_found(what, name, tenant, base, where))
    if not yes:
        confirm(f"{doomed} will be deleted.")
    asyncio.run(_delete(doomed, tenant, where))
    output.show(
        doomed.as_document(),
        lambda: (
            f"{doomed} is deleted, and found no more. A worker removes what is left: one that "
            "runs, or the next `penstock ingest`."
        ),
    )


async def _found(what: What, name: str, tenant: str, base: str | None, where: Where) -> Doomed:
    async with opened(where, tenant) as (_, library):
        naming = Naming(library)
        within = None if base is None else await naming.base(base)
        if what == "base":
            found = await _base(naming, name)
            number = (await library.progress(base=found.id)).total
            return Doomed(what, found.id, found.name, repr(found.name), number)
        if what == "source":
            source = await naming.source(name, within)
            number = (await library.progress(source=source.id)).total
            return Doomed(what, source.id, source.name, described(source), number)
        document = await naming.document(name, within)
        return Doomed(what, document.id, document.path, described(document), 1)


async def _base(naming: Naming, name: str) -> Base | BaseBroken:
    """The id and the name of a base, which may have lost all else."""
    try:
        return await naming.base(name)
    except BaseBroken as error:
        return error


async def _delete(doomed: Doomed, tenant: str, where: Where) -> None:
    async with opened(where, tenant) as (_, library):
        await _way(library, doomed.what)(doomed.id)


def _way(library: Library, what: What) -> Any:
    ways = {
        "document": library.delete_document,
        "source": library.delete_source,
        "base": library.delete_base,
    }
    return ways[what]
