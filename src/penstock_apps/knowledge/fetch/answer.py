"""What a server's answer means for us."""

from __future__ import annotations

from email.message import Message

import httpcore
import httpx

from penstock import asked_wait
from penstock_apps.knowledge.fetch.errors import FetchFailed, FetchRefused
from penstock_apps.knowledge.fetch.limits import Limits

UNKNOWN = "application/octet-stream"
REDIRECTS = frozenset({301, 302, 303, 307, 308})
PASSING = frozenset({408, 425, 429})

MEANING = {
    401: "it asks for a login",
    403: "it does not let us in",
    404: "there is no such page",
    407: "it asks for a login",
    410: "the page was removed",
    451: "the page must not be shown",
}


class Answer:
    """Status and headers, read once."""

    def __init__(self, response: httpcore.Response) -> None:
        self.status = response.status
        self.headers = httpx.Headers(response.headers)

    @property
    def moved_to(self) -> str | None:
        return self.headers.get("location") if self.status in REDIRECTS else None

    @property
    def media_type(self) -> str:
        return self._content_type.get_content_type()

    @property
    def charset(self) -> str | None:
        return self._content_type.get_content_charset()

    def check(self, url: str, limits: Limits) -> None:
        """Refuse what brings no page."""
        self._check_status(url)
        if self.media_type.startswith(limits.unwanted):
            raise FetchRefused("media_type", f"{url} is {self.media_type}: there is no text in it.")
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limits.bytes:
            raise too_large(url, limits)

    def _check_status(self, url: str) -> None:
        if 200 <= self.status < 300:
            return
        if self.status >= 500 or self.status in PASSING:
            raise FetchFailed(
                f"The server of {url} is busy or broken (it answers {self.status}).",
                status=self.status,
                after=asked_wait(self.headers),
            )
        meaning = MEANING.get(self.status, "there is no page in that")
        raise FetchRefused(
            "status", f"The server of {url} answers {self.status}: {meaning}.", status=self.status
        )

    @property
    def _content_type(self) -> Message:
        message = Message()
        message["Content-Type"] = self.headers.get("content-type") or UNKNOWN
        message.set_default_type(UNKNOWN)
        return message


def too_large(url: str, limits: Limits, *, inflated: bool = False) -> FetchRefused:
    how = " once it is unpacked" if inflated else ""
    return FetchRefused(
        "inflates" if inflated else "too_large",
        f"{url} is larger than the {limits.bytes:,} bytes allowed{how}.",
    )
