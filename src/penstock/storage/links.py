"""Sign links that open one stored file for a limited time, without an API key."""

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

MAX_LIFETIME_S = 3600
# A shorter secret could be guessed from a link.
MIN_SECRET_BYTES = 16
NOT_SIGNED_HERE = "This link was not made here, or it was changed. Ask for a new one."


class Link(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of a link: a tenant, an HTTP method, a file's name, and when the link expires."""

    tenant: str
    method: Method
    name: str
    until: int


class Links:
    """Signs links and verifies them. Anyone who has the secret can do both.

    `purpose` is part of each signature. A token that was signed with the same secret for another
    purpose is therefore not a valid link.
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
        expires: int = MAX_LIFETIME_S,
        *,
        now: float | None = None,
    ) -> str:
        """Return a token that opens this file with this HTTP method.

        The token expires after `expires` seconds, at most an hour.
        """
        if not 0 < expires <= MAX_LIFETIME_S:
            raise ValueError(f"A link must last for 1 to {MAX_LIFETIME_S} seconds, not {expires}.")
        if not belongs_to(name, tenant):
            raise ValueError(f"{name} is no stored file of tenant {tenant!r}.")
        link = Link(tenant, method, name, int(_now(now)) + expires)
        body = msgspec.json.encode(link)
        return f"{_encode(body)}.{_encode(self._sign(body))}"

    def verify(self, token: str, method: str, *, now: float | None = None) -> Link:
        """Return the link that a token contains.

        Raises `LinkRefused` if the token was not signed with this secret, has expired, or is for
        another method.
        """
        try:
            body, signature = map(_decode, token.split("."))
        except ValueError:
            raise LinkRefused(NOT_SIGNED_HERE) from None
        if not hmac.compare_digest(signature, self._sign(body)):
            raise LinkRefused(NOT_SIGNED_HERE)
        link = msgspec.json.decode(body, type=Link)
        if link.until <= _now(now):
            raise LinkRefused("This link has expired. Ask for a new one.")
        if link.method != method:
            raise LinkRefused(f"This link is for {link.method}, not for {method}.")
        return link

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._secret, self._purpose + body, sha256)


def _now(now: float | None) -> float:
    return time.time() if now is None else now


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if _encode(raw) != text:  # Refuse other spellings of the same bytes.
        raise ValueError(text)
    return raw
