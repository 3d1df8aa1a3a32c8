"""Send events to jobs that wait for them, and look at what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from penstock.connect.scope import Calls
from penstock.errors import BadArgument, JobNotFound
from penstock.groups.arguments import seconds, whole
from penstock.store import key_of
from penstock.store.steps import Events
from penstock.tasks.handler.waits import event_name
from penstock.tasks.options import CHECKS
from penstock.tasks.payload import ARGS_LIMIT, encode_object

WEEK: Final = 7 * 86_400.0
EVENTS_AT_ONCE: Final = 1000
PAYLOAD: Final = "payload"


class SentEvent(Struct, frozen=True, kw_only=True):
    """An event that was sent, and how many jobs it woke at once."""

    id: str
    name: str
    woken: int


class KeptEvent(Struct, frozen=True, kw_only=True):
    """An event that jobs may still get."""

    id: str
    tenant: str
    name: str
    payload: Any
    sent_at: datetime
    expires_at: datetime


class EventCalls(Calls):
    """The calls about events that jobs wait for with `ctx.wait_for_event`."""

    _notify = True

    async def send_event(
        self,
        name: str,
        payload: Any = None,
        *,
        tenant: str = "",
        keep: float | timedelta = WEEK,
    ) -> SentEvent:
        """Send an event to every job that waits for its name, now or while it is kept.

            await app.send_event("approved:42", {"by": "Ada"})

        It belongs to a tenant, and so do the jobs that get it. `keep` is for how many seconds.
        """
        name, seconds_kept = event_name(name), seconds("keep", keep)
        if not seconds_kept:
            raise BadArgument("keep", keep, "more than 0 seconds")
        tenant = CHECKS["tenant"]("tenant", tenant)
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        whole_payload = encode_object({PAYLOAD: payload}, ARGS_LIMIT)
        text = whole_payload[len(PAYLOAD) + 4 : -1]  # without {"payload": and }
        is_own = self._connection is None
        options = msgspec.json.encode({"durable": is_own, "notify": self._notify}).decode()
        sent = await self._ask(
            lambda on: Events(self.store).send(
                on, name, text, tenant, seconds_kept, options, by=self._by
            ),
            again=False,
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
        """The events that are kept, newest first; pass the last one's id as `after` for more."""
        whole("limit", limit, 1, EVENTS_AT_ONCE)
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        start = None if after is None else _place(after)
        rows = await self._ask(lambda on: Events(self.store).list(on, name, tenant, start, limit))
        return [_kept(row) for row in rows]


def _place(after: Any) -> int:
    try:
        return key_of(after)
    except JobNotFound:
        raise BadArgument("after", after, "the id of an event") from None


def _kept(row: dict[str, Any]) -> KeptEvent:
    payload = msgspec.json.decode(row.pop("payload"))
    return KeptEvent(id=str(row.pop("id")), payload=payload, **row)
