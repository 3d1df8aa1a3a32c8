"""Routes with which admins manage the people who may log in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.groups.users import Person
from penstock.service.dependencies import Admin, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns, small_body
from penstock.service.schemas import PersonBody, PersonChange, PersonName

router = APIRouter(prefix="/people", tags=["access"])

CHANGE = raises(400, 401, 403, 404, 409, 413, 422, 503)


class People(Struct, frozen=True):
    """A page of people by name.

    Pass `after` to get the next page. It is null on the last one.
    """

    people: list[Person]
    after: str | None


@router.get("", responses={**returns(People), **raises(401, 403, 422, 503)})
async def list_people(
    request: Request,
    caller: Admin,
    after: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the people who may log in, and those who are disabled."""
    client = runtime_of(request).client_of(caller)
    people = list(await client.people(after=after, limit=limit))
    return as_json(People(people, people[-1].name if len(people) == limit else None))


@router.post("", status_code=201, responses={**returns(Person, 201, "Created."), **CHANGE})
@small_body
async def add_person(body: PersonBody, request: Request, caller: Admin) -> Response:
    """Add a person who may log in."""
    runtime = runtime_of(request)
    password_hash = await runtime.logins.passwords.hash(body.password)
    client = runtime.client_of(caller)
    person = await client.add_person(body.name, role=body.role, password_hash=password_hash)
    return as_json(person, 201)


@router.patch("/{name}", responses={**returns(Person), **CHANGE})
@small_body
async def change_person(
    name: PersonName, body: PersonChange, request: Request, caller: Admin
) -> Response:
    """Change the role or the password of a person, or disable the person.

    A new password, or disabling the person, ends all of their sessions. The last admin can neither
    be disabled nor lose that role, unless a key with the scope admin exists that never expires.
    """
    runtime = runtime_of(request)
    password_hash = None
    if body.password is not None:
        password_hash = await runtime.logins.passwords.hash(body.password)
    client = runtime.client_of(caller)
    person = await client.set_person(
        name, role=body.role, password_hash=password_hash, disabled=body.disabled, keep_admin=True
    )
    return as_json(person)
