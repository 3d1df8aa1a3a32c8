"""Send events to jobs that wait for them, and list the events that were sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.connect.scope import Calls
from penstock.errors import BadArgument, JobNotFound
from penstock.groups.arguments import check_whole_number, seconds
from penstock.store import key_of
from penstock.store.steps import EventStatements
from penstock.tasks.handler.waits import event_name
from penstock.tasks.options import CHECKS
from penstock.tasks.payload import ARGS_LIMIT, encode_object

WEEK: Final = 7 * 86_400.0
MAX_EVENTS_PER_PAGE: Final = 1000
PAYLOAD: Final = "payload"


class SentEvent(Struct, frozen=True, kw_only=True):
    """An event that was sent. `woken` is how many waiting jobs continued at once."""

    id: str
    name: str
    woken: int


class KeptEvent(Struct, frozen=True, kw_only=True):
    """An event that jobs may still receive."""

    id: str
    tenant: str
    name: str
    payload: Any
    sent_at: datetime
    expires_at: datetime


class EventCalls(Calls):
    """The calls for events, for which jobs wait with `ctx.wait_for_event`."""

    _notify = True

    async def send_event(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str = "",
        keep: float | timedelta = WEEK,
    ) -> SentEvent:
        """Send an event to all jobs that wait for its name now, or later while it is kept.

            await app.send_event("approved:42", {"by": "Ada"})

        Only jobs of the same `tenant` receive the event. It is kept for `keep` seconds, by default
        for a week.
        """
        name, seconds_kept = event_name(name), seconds("keep", keep)
        if not seconds_kept:
            raise BadArgument("keep", keep, "more than 0 seconds")
        tenant = CHECKS["tenant"]("tenant", tenant)
        if self._tenant is not None:
            tenant = self._tenant.resolve(tenant)
        whole_payload = encode_object({PAYLOAD: payload}, ARGS_LIMIT)
        text = whole_payload[len(PAYLOAD) + 4 : -1]  # Without {"payload": and }.
        is_own = self._connection is None
        options = msgspec.json.encode({"durable": is_own, "notify": self._notify}).decode()
        sent = await self._execute(
            lambda on: EventStatements(self.store).send(
                on, name, text, tenant, seconds_kept, options, by=self._by
            ),
            retry=False,
        )
        return SentEvent(id=str(sent.id), name=name, woken=sent.woken)

    async def sent_events(
        self,
        *,
        name: str | None = None,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[KeptEvent]:
        """List the events that are kept, newest first.

        Pass the id of the last event as `after` for the next page.
        """
        check_whole_number("limit", limit, 1, MAX_EVENTS_PER_PAGE)
        if self._tenant is not None:
            tenant = self._tenant.resolve(tenant)
        start = None if after is None else _cursor(after)
        rows = await self._execute(
            lambda on: EventStatements(self.store).list(on, name, tenant, start, limit)
        )
        return [_kept(row) for row in rows]


def _cursor(after: Any) -> int:
    try:
        return key_of(after)
    except JobNotFound:
        raise BadArgument("after", after, "the id of an event") from None


def _kept(row: dict[str, Any]) -> KeptEvent:
    payload = msgspec.json.decode(row.pop("payload"))
    return KeptEvent(id=str(row.pop("id")), payload=payload, **row)
