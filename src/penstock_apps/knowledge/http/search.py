"""The route of searches."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter
from fastapi import Query as Asked
from starlette.responses import Response

from penstock.service.problems import raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import Id
from penstock_apps.knowledge.http.answers import Found, Hits
from penstock_apps.knowledge.http.bodies import TEXT, Named, Tag, parse_metadata
from penstock_apps.knowledge.http.routing import KnowledgeRoute, Read
from penstock_apps.knowledge.search import Filters, Mode, Query

router = APIRouter(tags=["knowledge"], route_class=KnowledgeRoute)

READ: Final = raises(401, 403, 404, 422, 503)


@router.get("/search", responses={**returns(Hits), **READ})
async def search(
    library: Read,
    q: Annotated[str, Asked(min_length=1, max_length=10_000, pattern=TEXT)],
    k: Annotated[int, Asked(ge=1, le=100)] = 10,
    base: Annotated[list[Named] | None, Asked(max_length=100)] = None,
    source: Annotated[list[Id] | None, Asked(max_length=100)] = None,
    document: Annotated[list[Id] | None, Asked(max_length=100)] = None,
    tag: Annotated[list[Tag] | None, Asked(max_length=32)] = None,
    metadata: Annotated[
        str | None,
        Asked(
            max_length=16_384,
            description=(
                "A JSON object. "
                "Only documents whose metadata have all of these values are searched."
            ),
            examples=['{"team": "support"}'],
        ),
    ] = None,
    mode: Mode = "hybrid",
) -> Response:
    """Search documents by meaning and by words. The answer has at most `k` chunks, best first.

    `base`, `source`, `document` and `tag` may each be given several times, and match any of the
    values.
    """
    filters = Filters(
        sources=tuple(map(int, source or ())),
        documents=tuple(map(int, document or ())),
        tags=tuple(tag or ()),
        metadata=parse_metadata(metadata),
    )
    hits = await library.search(Query(q, k, filters, mode), base or ())
    return as_json(Hits(hits=[Found.of(each) for each in hits]))
