"""Routes that send a subject's state after each change, as events or over a WebSocket."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Query, Request, WebSocket
from starlette.responses import Response

from penstock.service.dependencies import Reader, runtime_of
from penstock.service.live.access import LiveAccess, access_of
from penstock.service.live.hub import STATE_TYPES, LiveState, Subject, Update
from penstock.service.live.sockets import SocketSession
from penstock.service.live.streams import expect_existing, open_stream
from penstock.service.live.tickets import Ticket
from penstock.service.problems import Problem, described, problem_response, raises
from penstock.service.routing import as_json, returns, streams_events
from penstock.service.schemas import AskedTicket

router = APIRouter(prefix="/live", tags=["live"])

# A ticket works without the browser's cookies, so any page may read the answer.
ANY_ORIGIN: Final = {"access-control-allow-origin": "*"}
KIND_PATTERN: Final = described(r"^[a-z-]{1,40}$", "a kind of what is watched, such as job")


def _stream_responses() -> dict[int | str, dict[str, Any]]:
    """Describe the responses to a client that watches a subject, for OpenAPI."""
    for kind in STATE_TYPES:
        returns(kind)
    answers = returns(
        LiveState,
        200,
        "A stream of events, each with a whole state. "
        "With `Accept: application/json`, the present state only.",
    )
    answers[200]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    answers[204] = {
        "description": "The client has already seen the final state, so it need not connect again."
    }
    return answers


@router.post(
    "/tickets",
    responses={**returns(Ticket, 201), **raises(400, 401, 403, 408, 413, 415, 422, 503)},
)
async def issue_ticket(body: AskedTicket, request: Request, caller: Reader) -> Response:
    """Issue a ticket for a browser, which cannot send a key when it opens a stream.

    Pass the ticket as `?ticket=…` to the routes under `/live`.
    """
    hub = runtime_of(request).hub
    subjects = [hub.parse_subject(text) for text in body.subjects]
    ticket = runtime_of(request).tickets.issue(caller, subjects)
    return as_json(ticket, 201, {"cache-control": "no-store"})


@router.get(
    "/{kind}/{id:path}", responses={**_stream_responses(), **raises(401, 403, 404, 422, 503)}
)
@streams_events
async def listen(
    kind: Annotated[str, Path(pattern=KIND_PATTERN, examples=["job"])],
    id: Annotated[str, Path(min_length=1, max_length=500)],
    request: Request,
    last_event_id: Annotated[str, Header(max_length=100)] = "",
    version: Annotated[str, Query(max_length=100)] = "",
    ticket: Annotated[str, Query(max_length=20_000)] = "",
) -> Response:
    """Stream the state of a subject: first the present one, then each new one.

    The answer is a stream of server-sent events. `last-event-id` or `version` is the version that
    the client has already seen: the server does not send that state again.
    """
    try:
        subject = runtime_of(request).hub.parse_subject(f"{kind}/{id}")
        return await _answer(request, subject, last_event_id or version)
    except Problem as problem:
        if ticket:
            problem.headers |= ANY_ORIGIN
        raise


async def _answer(request: Request, subject: Subject, seen: str) -> Response:
    access = await access_of(request)
    access.check(subject)
    headers = ANY_ORIGIN if access.has_ticket else {}
    accept = request.headers.get("accept", "")
    if "application/json" in accept and "text/event-stream" not in accept:
        return await _current_state(request, access, subject, headers)
    return await open_stream(runtime_of(request).hub, access.caller.tenant, subject, seen, headers)


async def _current_state(
    request: Request, access: LiveAccess, subject: Subject, headers: dict[str, str]
) -> Response:
    snapshot = await runtime_of(request).hub.read(access.caller.tenant, subject)
    update = expect_existing(Update.of(subject, snapshot))
    return Response(update.body, 200, {**headers, "cache-control": "no-store"}, "application/json")


@router.websocket("")
async def live_socket(socket: WebSocket) -> None:
    """One socket for many subjects: `{"subscribe": "job/42"}`, `{"unsubscribe": "job/42"}`."""
    try:
        access = await access_of(socket)
        session = SocketSession(socket, runtime_of(socket).hub, access)
    except Problem as problem:
        await socket.send_denial_response(problem_response(problem))
        return
    await session.run()
