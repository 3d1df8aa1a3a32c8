"""Queues that callers name: as many as a system bears that looks at each of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from penstock.service.auth import Caller
from penstock.service.problems import Problem
from penstock.tasks import Registry, Request

# A name that nobody has used for so long makes room for another.
FORGOTTEN_AFTER_S: Final = 3600.0
# A key that is bound to a tenant may use this part of them, so that it keeps no others from theirs.
PART_OF_TENANT: Final = 10


class QueueNames:
    """The names of late that no task has as its queue. Each is a queue of its own in every list,
    gauge and scan, so there is a bound on what one server lets in.
    """

    def __init__(self, tasks: Registry, most: int) -> None:
        self._tasks = tasks
        self._most = most
        # By tenant; the name that was used last stands last.
        self._used: dict[str | None, dict[str, float]] = {}

    def expect_room(self, requests: Sequence[Request[Any]], caller: Caller) -> None:
        """A Problem for a name too many; nothing is taken then."""
        names = {
            request.options.queue
            for request in requests
            if request.options.queue != self._tasks.get(request.task).settings.defaults.queue
        }
        self._take(names, caller, "options.queue")

    def expect_room_for(self, queue: str, caller: Caller) -> None:
        """The same for a queue that gets settings, since these put it in every list for good."""
        self._take({queue}, caller, "queue")

    def _take(self, names: set[str], caller: Caller, field: str) -> None:
        if names:
            names = names - {task.settings.defaults.queue for task in self._tasks}
        if not names:
            return
        now = time.monotonic()
        used = self._used.setdefault(caller.tenant, {})
        while used and (oldest := next(iter(used.items())))[1] < now - FORGOTTEN_AFTER_S:
            del used[oldest[0]]
        most = self._most if caller.tenant is None else max(self._most // PART_OF_TENANT, 1)
        if len(names | used.keys()) > most:
            told = (
                f"Within an hour callers may name {most:,} queues that no task names, and named "
                f"{len(used):,}. Give tasks their queues, or tell jobs apart by subject or tag."
            )
            raise Problem(422, "too-many-queues", told, fields=[(field, told)])
        for name in names:
            used.pop(name, None)
            used[name] = now
