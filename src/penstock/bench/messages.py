"""What a measured process and the bench tell each other: one JSON document a line."""

from __future__ import annotations

import sys

import msgspec


class Orders(msgspec.Struct, frozen=True):
    """The bench's first line. The second says go; the end of the input says stop."""

    url: str
    schema: str
    overlapped: bool = False
    # How many child processes a worker may have; None for its default.
    children: int | None = None


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Everything is imported and connected."""


class Progress(msgspec.Struct, frozen=True, tag=True):
    """So many jobs are settled, and so many bytes of memory are in use."""

    settled: int
    rss: int | None = None


class Finished(msgspec.Struct, frozen=True, tag=True):
    """What was seen from the start to the stop. Times are of the machine's monotonic clock."""

    samples: list[tuple[float, int]]
    cpu_seconds: float
    peak_rss: int | None
    server_cpu_seconds: float | None = None
    children_cpu_seconds: float | None = None
    stamps: dict[int, float] = {}


Message = Ready | Progress | Finished

_encode = msgspec.json.Encoder().encode
_decode: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
decode_orders = msgspec.json.Decoder(Orders).decode


def line(message: msgspec.Struct) -> bytes:
    return _encode(message) + b"\n"


def decode(text: bytes) -> Message:
    return _decode.decode(text)


def say(message: Message) -> None:
    """For the measured process: tell the bench."""
    sys.stdout.buffer.write(line(message))
    sys.stdout.buffer.flush()
