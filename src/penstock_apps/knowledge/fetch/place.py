"""A URL that may be asked for."""

from __future__ import annotations

import httpx

from penstock_apps.knowledge.fetch.errors import FetchRefused

LONGEST = 8_192
DEFAULT_PORTS = {"http": 80, "https": 443}


def place_at(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """The URL, checked for what can be seen in it; where its name leads is checked later."""
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        url = url.copy_with(fragment=None)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise FetchRefused("url", f"{text[:200]!r} is no address of a page ({error}).") from error
    if len(text) > LONGEST:
        raise FetchRefused("url", f"An address of more than {LONGEST:,} characters is not fetched.")
    if url.scheme not in DEFAULT_PORTS:
        raise FetchRefused(
            "url",
            f"Only http and https are fetched, not {url.scheme or 'an address without it'!r}.",
        )
    if url.userinfo:
        raise FetchRefused(
            "url", f"The address of a page on {url.host} has a password in it. Leave that out."
        )
    if not url.host or "%" in url.host:
        raise FetchRefused("url", f"{text[:200]!r} names no server.")
    return url


def shown(url: str | httpx.URL) -> str:
    """An address for messages, without its query: that of a signed link opens what it leads to."""
    known = httpx.URL(url) if isinstance(url, str) else url
    without = str(known.copy_with(query=None, fragment=None))
    return f"{without}?…" if known.query else without
