"""The service: an HTTP API over the engine, by itself or inside another ASGI app."""

from penstock.service.bounds import Bounds
from penstock.service.entry import Entry
from penstock.service.service import Service

__all__ = ["Bounds", "Entry", "Service"]
