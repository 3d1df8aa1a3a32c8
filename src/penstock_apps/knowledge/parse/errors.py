"""What goes wrong between us and a service that reads files."""

from __future__ import annotations

from penstock import NotRetryable
from penstock_apps.knowledge.errors import KnowledgeError


class NotParsed(KnowledgeError, NotRetryable):
    """The service has lost the file, or does not finish reading it."""


class ParserRefuses(NotParsed):
    """The service refuses our key, or is not the service that was expected; the file is fine."""
