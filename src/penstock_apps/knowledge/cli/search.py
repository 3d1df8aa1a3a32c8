"""The command `penstock search`, which prints the chunks that answer a question best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli.framework import examples, expand_options
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output
from penstock_apps.knowledge.cli.options import DEFAULT_TENANT, Tenant, expect_knowledge, name

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from penstock_apps.knowledge.search import Hit

MAX_CHARACTERS_SHOWN = 400


def non_empty(text: str) -> str:
    """Check that a question is not empty."""
    if not text.strip():
        raise typer.BadParameter("it is empty; give a question, or words to look for")
    return text


@examples(
    'penstock search "how do I rotate the keys?"',
    "penstock search vacuum -k 10 --base manuals --json",
    'penstock search "\\"dead letter\\" -redrive" --mode words',
)
@expand_options
def search(
    *,
    question: Annotated[
        str,
        typer.Argument(
            parser=non_empty,
            metavar="QUESTION",
            help='A question, or words. A "quoted phrase" has to be there, a -word must not.',
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many results.")] = 5,
    tenant: Tenant = DEFAULT_TENANT,
    base: Annotated[
        list[str] | None,
        typer.Option(
            parser=name,
            metavar="NAME",
            help="A knowledge base to look in; may be repeated. All, if none is named.",
            show_default=False,
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            parser=name,
            metavar="TAG",
            help="Only what has this tag; may be repeated.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Literal["hybrid", "vector", "words"],
        typer.Option(help="By meaning and by words, or by one of them alone."),
    ] = "hybrid",
    where: DatabaseOptions,
    output: Output,
) -> None:
    """Find what documents say about something.

    The best places come first, each with where it stands.
    """
    expect_knowledge()

    import asyncio

    from penstock_apps.knowledge.cli.names import NameResolver, open_library
    from penstock_apps.knowledge.search import Filters, Query

    # Arguments in another encoding are searched as far as they can be decoded.
    text = question.encode("utf-8", "replace").decode()
    query = Query(text, k, Filters(tags=tuple(tag or ())), mode)

    async def ask() -> tuple[list[Hit], set[str]]:
        """Return the hits, and the names of the searched bases."""
        async with open_library(where, tenant) as (_, library):
            searched = [await NameResolver(library).base(each) for each in base or ()]
            hits = await library.search(query, [each.name for each in searched])
            return hits, {each.name for each in searched or await library.bases()}

    hits, bases = asyncio.run(ask())
    output.show([_document(each) for each in hits], lambda: _render(hits, bases))


def _document(hit: Hit) -> dict[str, Any]:
    return {
        "document": str(hit.document),
        "path": hit.path,
        "title": hit.title,
        "score": round(hit.score, 6),
        "page": hit.page,
        "heading": hit.heading,
        "text": hit.text,
        "base": hit.base,
    }


def _render(hits: list[Hit], bases: set[str]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    if not hits:
        return "Nothing was found. `penstock ingest` takes documents in."
    lines: list[Text] = []
    for number, hit in enumerate(hits, 1):
        place = hit.path if hit.page is None else f"{hit.path}, page {hit.page}"
        lines.append(
            Text.assemble(
                (f"{number}. ", "dim"),
                (f"{hit.base}: " if len(bases) > 1 else "", "dim"),
                (place, "bold"),
                (f"  {hit.heading}" if hit.heading else "", "cyan"),
            )
        )
        lines.append(_highlighted(hit))
        lines.append(Text())
    return Group(*lines[:-1])


def _highlighted(hit: Hit) -> Text:
    """Render the part of a hit that fits best, with the words of the question in bold."""
    from rich.text import Text

    shown = " ".join((hit.highlight or hit.text).split())
    text = Text("   ")
    for number, part in enumerate(shown[:MAX_CHARACTERS_SHOWN].split("**")):
        text.append(part, "bold yellow" if number % 2 else "")
    if len(shown) > MAX_CHARACTERS_SHOWN:
        text.append(" …")
    return text
