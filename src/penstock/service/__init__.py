"""Serve an HTTP API for the engine, on its own or mounted in another ASGI app."""

from penstock.service.app import Service
from penstock.service.hosts import Entry
from penstock.service.middleware import Bounds

__all__ = ["Bounds", "Entry", "Service"]
