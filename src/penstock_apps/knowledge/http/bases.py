"""The routes of knowledge bases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from penstock.service.problems import Problem, raises
from penstock.service.routing import as_json, returns
from penstock_apps.knowledge.errors import BaseBroken
from penstock_apps.knowledge.http.answers import Bases, BaseShown, Deleted
from penstock_apps.knowledge.http.bodies import BaseChange, BaseWish, Named
from penstock_apps.knowledge.http.routing import Add, Change, KnowledgeRoute, Read
from penstock_apps.knowledge.http.sources import BaseName, base_of
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge"], route_class=KnowledgeRoute)

READ: Final = raises(401, 403, 404, 422, 503)
CHANGE: Final = raises(400, 401, 403, 404, 408, 409, 413, 415, 422, 503)
GONE: Final = returns(Deleted, 202, "It is deleted and no longer found. A job removes its data.")


@router.get("", responses={**returns(Bases), **raises(401, 403, 422, 503)})
async def list_bases(
    library: Read,
    after: Annotated[Named | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the knowledge bases of a tenant by name."""
    bases = [BaseShown.of(each) for each in await library.bases(after=after, limit=limit)]
    return as_json(Bases(bases=bases, after=bases[-1].name if len(bases) == limit else None))


@router.post(
    "",
    responses={
        **returns(BaseShown, 200, "The knowledge base existed already, with these settings."),
        **returns(BaseShown, 201, "The knowledge base was created."),
        **CHANGE,
    },
)
async def make_base(body: BaseWish, library: Add) -> Response:
    """Create a knowledge base. If one with this name exists, it stays as it is.

    The existing base is returned if it has all of the given settings. Otherwise the answer is a
    409.
    """
    _check_address(library, body.embedding)
    base, is_new = await library.find_or_make_base(body.name, body.recipe, body.language)
    if differences := body.differences(base):
        raise _name_taken(base, differences)
    return as_json(BaseShown.of(base), 201 if is_new else 200)


@router.get("/{id}", responses={**returns(BaseShown), **READ})
async def get_base(id: BaseName, library: Read) -> Response:
    """A knowledge base by its id or its name."""
    return as_json(BaseShown.of(await base_of(library, id)))


@router.patch(
    "/{id}",
    responses={
        **returns(BaseShown),
        **returns(
            BaseShown,
            202,
            "All documents are cut and embedded anew. `building` is the batch that does it.",
        ),
        **CHANGE,
    },
)
async def change_base(id: BaseName, body: BaseChange, library: Change) -> Response:
    """Change how the documents of a knowledge base are cut into chunks or embedded.

    `embedding` and `chunking` each replace the whole former value. Searches use the former settings
    until all documents are embedded anew.
    """
    _check_address(library, body.embedding or {})
    base = await base_of(library, id)
    recipe = body.recipe(base.target_recipe)
    batch = base.next_batch
    if recipe != base.target_recipe or base.next_error is not None:
        batch = await library.change_recipe(base, recipe)
    return as_json(BaseShown.of(await base_of(library, str(base.id))), 202 if batch else 200)


@router.delete("/{id}", responses={**GONE, **CHANGE})
async def delete_base(id: BaseName, library: Change) -> Response:
    """Delete a knowledge base with all its sources and documents."""
    try:
        base = (await base_of(library, id)).id
    except BaseBroken as error:
        base = error.id
    await library.delete_base(base)
    return as_json(Deleted(deleted=str(base)), 202)


def _name_taken(base: Base, differences: Mapping[str, tuple[Any, Any]]) -> Problem:
    """Return the problem of a base that exists with other settings than requested."""
    fields = [
        (name, f"The existing base has {_text(existing)}, but the request has {_text(requested)}.")
        for name, (existing, requested) in differences.items()
    ]
    detail = f"There is already a knowledge base {base.name!r} with another"
    detail = f"{detail} {' and another '.join(differences)}. "
    if "language" in differences:
        detail += "The language of a base cannot be changed. Use another name."
    else:
        detail += f"Use another name, or change that base with PATCH /knowledge-bases/{base.id}."
    return Problem(409, "name-taken", detail, fields=fields, about={"id": str(base.id)})


def _check_address(library: Library, embedding: Mapping[str, Any]) -> None:
    """Refuse a `base_url` from a tenant: this server would call it from inside its network."""
    if library.confined and "base_url" in embedding:
        message = "A tenant cannot choose the address of a model. Leave out `base_url`."
        raise Problem(403, "not-allowed", message, fields=[("embedding.base_url", message)])


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
