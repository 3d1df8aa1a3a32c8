"""What a worker and its warden say to each other."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from penstock.isolation.death import Death


@dataclass(frozen=True)
class Plan:
    """What a child is to be: the modules it imports, the function that is its life and what that
    gets. Only ever read by processes that the writer has started."""

    life: str
    given: Any
    modules: Sequence[str] = ()
    path: Sequence[str] = ()
    # Runs before the modules are imported, as "module:function".
    before: Sequence[str] = ()
    main: dict[str, Any] | None = field(default=None)

    def dump(self) -> bytes:
        return pickle.dumps(self)


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
read_orders = msgspec.msgpack.Decoder(ToWarden).decode
read_news = msgspec.msgpack.Decoder(FromWarden).decode
