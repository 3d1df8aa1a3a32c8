"""One subject's news as a response: the present state, then each that follows."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from penstock.service.live.hub import Hub
from penstock.service.live.listener import Ended, Listener
from penstock.service.live.sse import EventStream
from penstock.service.live.subject import Subject
from penstock.service.live.told import Told
from penstock.service.problem import Problem

# A first look that takes longer is a database that does not answer.
FIRST_LOOK: Final = 5.0


async def stream(
    hub: Hub, tenant: str | None, subject: Subject, seen: str, headers: dict[str, str]
) -> Response:
    """What is told of a subject, as far as a tenant may see it; a Problem if it is not there.

    Who has `seen` the final state is answered with 204.
    """
    listener = hub.enter()
    try:
        hub.join(listener, tenant, subject)
        first = there(await _first(listener))
    except BaseException:
        _leave(hub, listener, tenant, subject)
        raise
    is_seen = first.is_same(seen)
    if is_seen and first.is_final:
        _leave(hub, listener, tenant, subject)
        return Response(status_code=204, headers=headers)
    events = EventStream(listener, None if is_seen else first, headers)
    events.then(lambda: _leave(hub, listener, tenant, subject))
    return events


async def _first(listener: Listener) -> Told:
    try:
        told = await listener.first(FIRST_LOOK)
    except Ended:
        told = None
    if told is None:
        raise Problem(503, "database-lost", "The database does not answer, or this server stops.")
    return told


def there(told: Told) -> Told:
    """What is told of a subject that is there; else a Problem."""
    if told.present is None:
        raise Problem(404, "not-found", f"There is no {told.subject.kind} {told.subject.id}.")
    return told


def _leave(hub: Hub, listener: Listener, tenant: str | None, subject: Subject) -> None:
    hub.leave(listener, tenant, subject)
    hub.exit(listener)
