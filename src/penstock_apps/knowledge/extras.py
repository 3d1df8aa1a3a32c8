"""The error for a package of an extra that is not installed."""

from __future__ import annotations

from penstock import NotRetryable
from penstock.wording import how_to_install
from penstock_apps.knowledge.errors import KnowledgeError


class NotInstalled(KnowledgeError, NotRetryable):
    """A package of an extra is not installed."""

    def __init__(self, package: str, extra: str, remedy: str | None = None) -> None:
        self.package = package
        self.extra = extra
        remedy = remedy or f"Run {how_to_install(extra)}."
        super().__init__(f"The package {package} is not installed. {remedy}")
