"""Routes with which admins manage API keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.groups.keys import Key, NewKey
from penstock.service.dependencies import Admin, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns, small_body
from penstock.service.schemas import KeyBody, KeyId, RotationBody

router = APIRouter(prefix="/keys", tags=["access"])

CHANGE = raises(400, 401, 403, 404, 409, 413, 422, 503)


class Keys(Struct, frozen=True):
    """A page of keys by name, without their secrets.

    Pass `after` to get the next page. It is null on the last one.
    """

    keys: list[Key]
    after: str | None


class Revoked(Struct, frozen=True):
    """The ids of the keys that were revoked."""

    revoked: list[str]


@router.get("", responses={**returns(Keys), **raises(401, 403, 422, 503)})
async def list_keys(
    request: Request,
    caller: Admin,
    all: Annotated[bool, Query()] = False,
    after: Annotated[KeyId | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the valid keys by name; with `all`, also revoked and expired keys."""
    client = runtime_of(request).client_of(caller)
    keys = list(await client.keys(all=all, after=after, limit=limit))
    return as_json(Keys(keys, keys[-1].id if len(keys) == limit else None))


@router.post("", status_code=201, responses={**returns(NewKey, 201, "Created."), **CHANGE})
@small_body
async def create_key(body: KeyBody, request: Request, caller: Admin) -> Response:
    """Create a key. `secret` is the key itself, and only this answer contains it."""
    client = runtime_of(request).client_of(caller)
    key = await client.create_key(
        body.name, scopes=body.scopes, tenant=body.tenant, expires=body.expires
    )
    return as_json(key, 201)


@router.post(
    "/{id}/rotate", status_code=201, responses={**returns(NewKey, 201, "Created."), **CHANGE}
)
@small_body
async def rotate_key(id: KeyId, body: RotationBody, request: Request, caller: Admin) -> Response:
    """Replace a key by a new one. The old key stays valid for the `overlap`, in seconds.

    A call that would shorten the life of the last key with the scope admin is refused.
    """
    client = runtime_of(request).client_of(caller)
    key = await client.rotate_key(id, overlap=body.overlap, expires=body.expires, keep_admin=True)
    return as_json(key, 201)


@router.delete("/{id}", responses={**returns(Revoked), **CHANGE})
async def revoke_key(id: KeyId, request: Request, caller: Admin) -> Response:
    """Revoke a key. All servers refuse it within five seconds.

    The last key with the scope admin cannot be revoked, unless a person has the role admin, because
    nobody could create another key. Another key with that scope counts only if it does not expire
    sooner.
    """
    client = runtime_of(request).client_of(caller)
    return as_json(Revoked(list(await client.revoke_key(id, keep_admin=True))))
