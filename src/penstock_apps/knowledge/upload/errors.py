"""Why an upload was not taken, and what its sender can do."""

from __future__ import annotations

from typing import Literal

from penstock import NotRetryable
from penstock_apps.knowledge.errors import KnowledgeError

Fault = Literal["not_multipart", "broken", "too_large", "too_many", "cut_off", "disk"]


class UploadRefused(KnowledgeError, NotRetryable):
    """The rest of an upload is not taken; what was received of it before stays."""

    def __init__(self, fault: Fault, message: str) -> None:
        self.fault = fault
        super().__init__(message)
