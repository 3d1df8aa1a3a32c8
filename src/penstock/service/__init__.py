"""The service: an HTTP API over the engine, by itself or inside another ASGI app."""

from penstock.service.app import Service
from penstock.service.hosts import Entry
from penstock.service.middleware import Bounds

__all__ = ["Bounds", "Entry", "Service"]
