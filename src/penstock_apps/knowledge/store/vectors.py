"""Vectors as Postgres takes them: half floats, in network order, after their number."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack
from typing import Any

from penstock_apps.knowledge.embed.numeric import np

HEADER = 4


def encoded(vectors: Iterable[Any]) -> list[bytes]:
    """Vectors for the wire."""
    halves = [np.asarray(each, dtype=">f2") for each in vectors]
    return [pack(">HH", each.shape[0], 0) + each.tobytes() for each in halves]


def decoded(data: bytes) -> Any:
    """A vector from the wire."""
    return np.frombuffer(data, dtype=">f2", offset=HEADER).astype(np.float32)
