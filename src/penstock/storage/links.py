"""Links that open one stored file for a while, without a key."""

from __future__ import annotations

import hmac
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError
from penstock.storage.errors import LinkRefused
from penstock.storage.names import belongs_to

Method = Literal["GET", "PUT", "DELETE"]

HOUR = 3600
# A shorter one can be guessed from a link.
MIN_SECRET_BYTES = 16
NOT_OURS = "This link was not made here, or it was changed on its way. Ask for a new one."


class Link(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a link opens, for whom, how, and until when (seconds of Unix time)."""

    tenant: str
    method: Method
    name: str
    until: int


class Links:
    """Makes links and checks them. Whoever has the secret can do both.

    `purpose` is signed with each link: what the same secret signs for another purpose is no link.
    """

    def __init__(self, secret: bytes, purpose: bytes) -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise ConfigError("secret", "…", f"at least {MIN_SECRET_BYTES} random bytes")
        self._secret = secret
        self._purpose = purpose

    def sign(
        self,
        tenant: str,
        method: Method,
        name: str,
        expires: int = HOUR,
        *,
        now: float | None = None,
    ) -> str:
        """A token that opens this file to this method, for an hour at most."""
        if not 0 < expires <= HOUR:
            raise ValueError(f"A link lasts for 1 to {HOUR} seconds, not {expires}.")
        if not belongs_to(name, tenant):
            raise ValueError(f"{name} is no stored file of tenant {tenant!r}.")
        link = Link(tenant, method, name, int(_now(now)) + expires)
        body = msgspec.json.encode(link)
        return f"{_text(body)}.{_text(self._seal(body))}"

    def verify(self, token: str, method: str, *, now: float | None = None) -> Link:
        """What a token opens; refused when it is not ours, over, or for another method."""
        try:
            body, seal = map(_raw, token.split("."))
        except ValueError:
            raise LinkRefused(NOT_OURS) from None
        if not hmac.compare_digest(seal, self._seal(body)):
            raise LinkRefused(NOT_OURS)
        link = msgspec.json.decode(body, type=Link)
        if link.until <= _now(now):
            raise LinkRefused("This link is over: links last for an hour. Ask for a new one.")
        if link.method != method:
            raise LinkRefused(f"This link is for {link.method}, not for {method}.")
        return link

    def _seal(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, self._purpose + body, sha256)


def _now(now: float | None) -> float:
    return time.time() if now is None else now


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _raw(text: str) -> bytes:
    raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _text(raw) != text:  # One link has one spelling.
        raise ValueError(text)
    return raw
