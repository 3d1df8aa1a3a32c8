"""The route that sends an event to the jobs that wait for it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.groups.events import SentEvent
from penstock.service.dependencies import Enqueuer, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import EventBody

router = APIRouter(prefix="/events", tags=["events"])


@router.post("", responses={**returns(SentEvent), **raises(400, 401, 403, 413, 422, 503)})
async def send_event(body: EventBody, request: Request, caller: Enqueuer) -> Response:
    """Send an event. Jobs that wait for an event of this name continue.

    The event belongs to `tenant`. A key that is bound to a tenant cannot name another one.
    """
    client = runtime_of(request).client_of(caller)
    return as_json(await client.send_event(body.name, body.payload, tenant=body.tenant))
