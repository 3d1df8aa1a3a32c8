"""The code to compare a queue with: an app's tasks, and what opens their resources."""

from __future__ import annotations

from msgspec import Struct

from penstock.tasks import Registry


class Code(Struct, frozen=True):
    """What an app can run. `name` is where it is, such as `shop.jobs`."""

    name: str
    tasks: Registry
    resources: frozenset[str]
