"""The errors that fetching a page raises."""

from __future__ import annotations

from typing import Literal

from penstock.errors import NotRetryable, PenstockError, Retryable

Fault = Literal[
    "url",
    "address",
    "unknown_host",
    "redirects",
    "certificate",
    "status",
    "media_type",
    "encoding",
    "too_large",
    "inflates",
]


class FetchError(PenstockError):
    """The base class of the errors that fetching a page raises."""


class FetchRefused(FetchError, NotRetryable):
    """The page cannot or must not be fetched, so another attempt would fail, too."""

    def __init__(self, fault: Fault, message: str, *, status: int | None = None) -> None:
        self.fault = fault
        self.status = status
        super().__init__(message)


class FetchFailed(FetchError, Retryable):
    """The page could not be fetched now, because its server is down, busy or slow."""

    def __init__(
        self, message: str, *, status: int | None = None, after: float | None = None
    ) -> None:
        self.status = status
        Retryable.__init__(self, message, after=after)
