"""What goes wrong between us and a service that reads files."""

from __future__ import annotations

from penstock import NotRetryable
from penstock_apps.knowledge.errors import KnowledgeError


class NotParsed(KnowledgeError, NotRetryable):
    """The service has lost the file, or does not come to an end with it."""


class ParserRefuses(NotParsed):
    """The service does not let us in, or is another than was thought: no fault of the file."""
