"""Routes that list queues and lanes, and change their settings."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.groups.answers import Removed
from penstock.groups.settings import LaneSettings, QueueSettings
from penstock.insights import Count, Lanes, QueueInsight
from penstock.service.dependencies import GlobalOperator, GlobalReader, runtime_of
from penstock.service.problems import Problem, raises
from penstock.service.routing import as_json, returns, small_body
from penstock.service.schemas import LaneBody, QueueBody, QueueName, changed_settings

router = APIRouter(prefix="/queues", tags=["queues"])

READ = raises(401, 403, 422, 503)
CHANGE = raises(400, 401, 403, 413, 422, 503)
Lane = Annotated[str, Query(max_length=200)]


class Queues(Struct, frozen=True):
    """A page of the queues in use, by name, and the settings of those that have any.

    Pass `after` to get the next page. It is null on the last one.
    """

    queues: tuple[QueueInsight, ...]
    settings: list[QueueSettings]
    left_out: Count
    """How many more queues have ready jobs."""
    after: str | None


class Settings(Struct, frozen=True):
    """A page of the settings of lanes, by name.

    Pass `after` to get the next page. It is null on the last one.
    """

    lanes: list[LaneSettings]
    after: str | None


@router.get("", responses={**returns(Queues), **READ})
async def list_queues(
    request: Request,
    caller: GlobalReader,
    after: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """List the queues that have jobs, workers or settings, by name."""
    runtime = runtime_of(request)
    page = await (await runtime.insights()).next_queues(after=after, limit=limit)
    shown = {queue.name for queue in page.queues}
    settings = [each for each in await runtime.app.queue_settings() if each.name in shown]
    return as_json(Queues(page.queues, settings, page.left_out, page.after))


@router.patch("/{queue}", responses={**returns(QueueSettings), **CHANGE})
@small_body
async def set_queue(
    queue: QueueName, body: QueueBody, request: Request, caller: GlobalOperator
) -> Response:
    """Change the settings of a queue. What is left out stays as it is; null removes a setting.

    Callers may name only a limited number of new queues. A queue that no task names and that has no
    settings yet counts as one of these.
    """
    runtime = runtime_of(request)
    app, values = runtime.client_of(caller), changed_settings(body)
    paused = values.pop("paused", ...)
    if paused is None:
        fields = [("paused", "Should be true or false")]
        raise Problem(422, "does-not-fit", "paused: Should be true or false", fields=fields)
    known = {each.name: each for each in await app.queue_settings()}
    if queue not in known:
        runtime.queue_names.expect_room_for(queue, caller)
    # These settings may be refused, so they come first: a request is done as a whole or not at all.
    if values:
        await app.set_queue(queue, **values, by=caller.name)
    if paused is not ...:
        await (app.pause(queue) if paused else app.resume(queue))
    known = {each.name: each for each in await app.queue_settings()}
    return as_json(known.get(queue, _default_settings(queue)))


@router.get("/{queue}/lanes", responses={**returns(Lanes), **READ})
async def list_lanes(
    queue: QueueName,
    request: Request,
    caller: GlobalReader,
    start: Lane = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Response:
    """List the lanes of a queue that have jobs or settings, the largest first."""
    insights = await runtime_of(request).insights()
    return as_json(await insights.lanes(queue, limit=limit, start=start))


@router.get("/{queue}/lane-settings", responses={**returns(Settings), **READ})
async def lane_settings(
    queue: QueueName,
    request: Request,
    caller: GlobalReader,
    after: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> Response:
    """List the lanes of a queue that have their own settings."""
    app = runtime_of(request).app
    lanes = list(await app.lane_settings(queue, after=after, limit=limit))
    return as_json(Settings(lanes, lanes[-1].lane if len(lanes) == limit else None))


@router.patch("/{queue}/lanes", responses={**returns(LaneSettings), **CHANGE})
@small_body
async def set_lane(
    queue: QueueName, lane: Lane, body: LaneBody, request: Request, caller: GlobalOperator
) -> Response:
    """Change the settings of a lane. What is left out stays as it is."""
    runtime, values = runtime_of(request), changed_settings(body)
    app = runtime.app
    if not await app.lane_settings(queue, limit=1):
        runtime.queue_names.expect_room_for(queue, caller)
    return as_json(await app.set_lane(queue, lane, **values, by=caller.name))


@router.delete("/{queue}/lanes", responses={**returns(Removed), **CHANGE})
async def remove_lane(
    queue: QueueName, lane: Lane, request: Request, caller: GlobalOperator
) -> Response:
    """Remove the settings of a lane, so that the defaults apply to it."""
    app = runtime_of(request).app
    return as_json(Removed(await app.remove_lane(queue, lane, by=caller.name)))


def _default_settings(queue: str) -> QueueSettings:
    """Return the settings of a queue that has none of its own: the defaults of the table."""
    return QueueSettings(
        name=queue, fair=False, lane_key="tenant", ageing=None, windows=None, late_after=None,
        paused=False,
    )  # fmt: skip
