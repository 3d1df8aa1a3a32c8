"""What a worker and its warden say to each other."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from penstock.isolation.death import Death


class Plan(Struct, frozen=True):
    """What a child is to be: the modules it imports, the function that is its life and what that
    gets, as plain values."""

    life: str
    given: Any
    modules: list[str] = []
    path: list[str] = []
    # Called before the modules are imported, as "module:function".
    before: list[str] = []
    # How to find what is `__main__` in the worker, by name or by path.
    main: dict[str, str] = {}


class Start(Struct, tag=True):
    """Start a child; its end of the channel comes along."""

    number: int
    row: int


class Kill(Struct, tag=True):
    """Kill a child."""

    number: int


class Died(Struct, tag=True):
    """A child is dead."""

    number: int
    death: Death


class Settled(Struct, tag=True):
    """The warden has imported what children need, or could not."""

    forks: bool
    trouble: str | None = None


ToWarden = Start | Kill
FromWarden = Died | Settled

encode = msgspec.msgpack.Encoder().encode
read_plan = msgspec.msgpack.Decoder(Plan).decode
read_orders = msgspec.msgpack.Decoder(ToWarden).decode
read_news = msgspec.msgpack.Decoder(FromWarden).decode
