"""Live: a subject's state whenever it changes, as events or over a socket."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Path, Query, Request, WebSocket
from starlette.responses import Response

from penstock.client import SubjectKind
from penstock.service.answers import as_json
from penstock.service.live import Ended, Hub, Listener, Subject, Told
from penstock.service.live.entry import Entry, entry_of
from penstock.service.live.socket import Talk
from penstock.service.live.sse import EventStream
from penstock.service.live.tickets import Ticket
from penstock.service.live.told import STATES, LiveState
from penstock.service.models.live import AskedTicket
from penstock.service.problem import Problem, answer, documented
from penstock.service.shapes import gives
from penstock.service.wiring import Reader, wiring_of

router = APIRouter(prefix="/live", tags=["live"])

# A first look that takes longer is a database that does not answer.
FIRST_LOOK: Final = 5.0
# Who has a ticket needs no login of the browser's: any page may read the answer.
ANYWHERE: Final = {"access-control-allow-origin": "*"}


def _streams() -> dict[int | str, dict[str, Any]]:
    """What is answered to those who listen, for OpenAPI."""
    for kind in STATES:
        gives(kind)
    answers = gives(LiveState, 200, "Events with a state each; asked for as JSON, the state once.")
    answers[200]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    answers[204] = {"description": "The client has seen the final state: it may stay away."}
    return answers


@router.post(
    "/tickets",
    responses={**gives(Ticket, 201), **documented(400, 401, 403, 408, 413, 415, 422, 503)},
)
async def issue_ticket(given: AskedTicket, request: Request, caller: Reader) -> Response:
    """A ticket for a browser, which cannot send a key with what it listens to."""
    subjects = [Subject.parse(text) for text in given.subjects]
    ticket = wiring_of(request).tickets.issue(caller, subjects)
    return as_json(ticket, 201, {"cache-control": "no-store"})


@router.get("/{kind}/{id:path}", responses={**_streams(), **documented(401, 403, 404, 422, 503)})
async def listen(
    kind: SubjectKind,
    id: Annotated[str, Path(min_length=1, max_length=500)],
    request: Request,
    last_event_id: Annotated[str, Header(max_length=100)] = "",
    version: Annotated[str, Query(max_length=100)] = "",
    ticket: Annotated[str, Query(max_length=20_000)] = "",
) -> Response:
    """A subject's present state, and then each that follows, as server-sent events.

    `last-event-id`, or `version`, is what the client has seen: that state is not told again.
    """
    try:
        return await _answer(request, Subject.parse(f"{kind}/{id}"), last_event_id or version)
    except Problem as problem:
        if ticket:
            problem.headers |= ANYWHERE
        raise


async def _answer(request: Request, subject: Subject, seen: str) -> Response:
    entry = await entry_of(request)
    entry.check(subject)
    headers = ANYWHERE if entry.has_ticket else {}
    accept = request.headers.get("accept", "")
    if "application/json" in accept and "text/event-stream" not in accept:
        return await _once(request, entry, subject, headers)
    return await _stream(wiring_of(request).hub, entry, subject, seen, headers)


async def _once(
    request: Request, entry: Entry, subject: Subject, headers: dict[str, str]
) -> Response:
    client = wiring_of(request).client_of(entry.caller)
    found = await client.present(subject.kind, [subject.id])
    told = _there(Told.of(subject, found.get(subject.id)))
    return Response(told.body, 200, {**headers, "cache-control": "no-store"}, "application/json")


async def _stream(
    hub: Hub, entry: Entry, subject: Subject, seen: str, headers: dict[str, str]
) -> Response:
    listener = hub.enter()
    try:
        hub.join(listener, entry.caller.tenant, subject)
        first = _there(await _first(listener))
    except BaseException:
        _leave(hub, listener, entry, subject)
        raise
    is_seen = first.is_same(seen)
    if is_seen and first.is_final:
        _leave(hub, listener, entry, subject)
        return Response(status_code=204, headers=headers)
    stream = EventStream(listener, None if is_seen else first, headers)
    stream.then(lambda: _leave(hub, listener, entry, subject))
    return stream


async def _first(listener: Listener) -> Told:
    try:
        told = await listener.first(FIRST_LOOK)
    except Ended:
        told = None
    if told is None:
        raise Problem(503, "database-lost", "The database does not answer, or this server stops.")
    return told


def _there(told: Told) -> Told:
    if told.present is None:
        raise Problem(404, "not-found", f"There is no {told.subject.kind} {told.subject.id}.")
    return told


def _leave(hub: Hub, listener: Listener, entry: Entry, subject: Subject) -> None:
    hub.leave(listener, entry.caller.tenant, subject)
    hub.exit(listener)


@router.websocket("")
async def talk(socket: WebSocket) -> None:
    """One socket for many subjects: `{"subscribe": "job/42"}`, `{"unsubscribe": "job/42"}`."""
    try:
        entry = await entry_of(socket)
        talking = Talk(socket, wiring_of(socket).hub, entry)
    except Problem as problem:
        await socket.send_denial_response(answer(problem))
        return
    await talking.run()
