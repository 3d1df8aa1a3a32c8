"""Routes that log people in and out, and tell callers who they are."""

from __future__ import annotations

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.groups.keys import Scope
from penstock.service.dependencies import AnyCaller, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns, small_body
from penstock.service.schemas import LoginBody

router = APIRouter(tags=["access"])


class Token(Struct, frozen=True):
    """The token for requests that change something: send it as `X-CSRF-Token`, with the cookie."""

    csrf: str


class Me(Struct, frozen=True, kw_only=True):
    """The caller, and what the caller may do. `csrf` is null unless a person is logged in."""

    name: str
    scopes: list[Scope]
    tenant: str | None
    csrf: str | None


@router.post("/login", responses={**returns(Token), **raises(400, 401, 403, 413, 422, 429, 503)})
@small_body
async def login(body: LoginBody, request: Request) -> Response:
    """Log in, and get a cookie for the session.

    The session ends after twelve hours, or after two hours without a request.
    """
    logins = runtime_of(request).logins
    new_login = await logins.log_in(request, body.name, body.password)
    response = as_json(Token(new_login.csrf))
    logins.set_cookie(response, request, new_login)
    return response


@router.post(
    "/logout",
    status_code=204,
    responses={204: {"description": "The session has ended."}, **raises(401, 403, 503)},
)
async def logout(request: Request, caller: AnyCaller) -> Response:
    """End the caller's session. An API key stays valid."""
    logins, response = runtime_of(request).logins, Response(status_code=204)
    await logins.log_out(request)
    logins.clear_cookie(response, request)
    return response


@router.get("/me", responses={**returns(Me), **raises(401, 503)})
async def me(caller: AnyCaller) -> Response:
    """Return who the caller is, and what the caller may do."""
    return as_json(
        Me(
            name=caller.name,
            scopes=sorted(caller.scopes),
            tenant=caller.tenant,
            csrf=caller.csrf,
        )
    )
