"""Live: whoever watches a subject is told its whole present state whenever that has changed."""

from penstock.service.live.hub import Hub
from penstock.service.live.listener import Ended, Listener
from penstock.service.live.subject import Subject
from penstock.service.live.told import Told

__all__ = ["Ended", "Hub", "Listener", "Subject", "Told"]
