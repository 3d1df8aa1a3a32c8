"""Many jobs in one call: enqueue them, ask for their states, change them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.groups.answers import Acted, ManyEnqueued, States
from penstock.service.acting import act
from penstock.service.dependencies import Enqueuer, Operator, Reader, wiring_of
from penstock.service.enqueuing import request_from
from penstock.service.idempotency import IdempotencyKey, keyed
from penstock.service.models.jobs import Action, AskedStates, NewJobs
from penstock.service.problems import documented
from penstock.service.routing import as_json, gives, keeps_keys

router = APIRouter(prefix="/bulk", tags=["bulk"])

WRITE = documented(400, 401, 403, 409, 413, 422, 429, 503)


@router.post("/jobs", status_code=202, responses={**gives(ManyEnqueued, 202, "Stored."), **WRITE})
@keeps_keys
async def enqueue_many(
    given: NewJobs, request: Request, caller: Enqueuer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Enqueue up to 1,000 jobs, all or none."""
    wiring = wiring_of(request)
    wanted = [
        request_from(wiring.app, one, caller, f"jobs.{place}.")
        for place, one in enumerate(given.jobs)
    ]
    wiring.queue_names.expect_room(wanted, caller)
    wanted = keyed(wanted, idempotency_key, given)
    return as_json(ManyEnqueued(await wiring.client_of(caller).enqueue_many(wanted)), 202)


@router.post("/states", responses={**gives(States), **WRITE})
async def states(given: AskedStates, request: Request, caller: Reader) -> Response:
    """State and progress of up to 1,000 jobs; those not found are left out."""
    return as_json(States(await wiring_of(request).client_of(caller).states(given.ids)))


@router.post("/actions", responses={**gives(Acted), **WRITE})
async def actions(given: Action, request: Request, caller: Operator) -> Response:
    """Cancel, retry or delete many jobs: a selection by ids, or a frozen filter."""
    return as_json(await act(wiring_of(request).client_of(caller), given, caller))
