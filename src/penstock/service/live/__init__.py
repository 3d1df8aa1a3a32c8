"""Live: whoever watches a subject is told its whole present state whenever that has changed."""

from penstock.service.live.hub import Ended, Hub, Listener, Subject, Told

__all__ = ["Ended", "Hub", "Listener", "Subject", "Told"]
