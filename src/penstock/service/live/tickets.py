"""Issue and check tickets, which browsers put in the address of a stream or WebSocket.

EventSource and WebSocket cannot send a key in a header. A ticket is valid for a minute. It lets a
client watch the subjects that the ticket names, with the tenant of the caller who requested it.
It permits nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec
from msgspec import Struct

from penstock.errors import ConfigError
from penstock.service.auth import Caller
from penstock.service.live.hub import Subject
from penstock.service.problems import Problem

TICKET_LIFETIME_S: Final = 60
MIN_SECRET_CHARS: Final = 32
_PURPOSE: Final = b"penstock live ticket"


class Ticket(Struct, frozen=True):
    """A ticket with which a client may start to listen within `expires_in` seconds.

    Pass it as `?ticket=…`.
    """

    ticket: str
    expires_in: int = TICKET_LIFETIME_S


class _Claims(Struct, frozen=True, array_like=True):
    expires: float
    name: str
    tenant: str | None
    subjects: tuple[str, ...]


class Tickets:
    """Issues and checks tickets. Servers that share a secret accept each other's.

    Without `secret`, the secret is PENSTOCK_TICKET_SECRET, or a random one if that is not set.
    """

    def __init__(self, secret: str | None = None) -> None:
        secret = os.environ.get("PENSTOCK_TICKET_SECRET") if secret is None else secret
        if secret is not None and len(secret) < MIN_SECRET_CHARS:
            raise ConfigError(
                "ticket_secret", "…", f"at least {MIN_SECRET_CHARS} characters, at random"
            )
        secret_bytes = os.urandom(32) if secret is None else secret.encode()
        self._key = hmac.digest(secret_bytes, _PURPOSE, hashlib.sha256)

    def issue(self, caller: Caller, subjects: list[Subject], now: float | None = None) -> Ticket:
        """Issue a ticket with which a client may watch these subjects as this caller."""
        expires = (time.time() if now is None else now) + TICKET_LIFETIME_S
        claims = _Claims(expires, caller.name, caller.tenant, tuple(map(str, subjects)))
        body = urlsafe_b64encode(msgspec.json.encode(claims))
        return Ticket(f"{body.decode()}.{self._sign(body).decode()}")

    def admit(self, ticket: str, now: float | None = None) -> tuple[Caller, frozenset[str]]:
        """Return the caller and the subjects of a ticket.

        Raises a Problem with 401 if the ticket is invalid or has expired.
        """
        body, _, signature = ticket.encode().partition(b".")
        try:
            is_ours = hmac.compare_digest(signature, self._sign(body))
            claims = msgspec.json.decode(urlsafe_b64decode(body), type=_Claims) if is_ours else None
        except (ValueError, msgspec.MsgspecError):
            claims = None
        if claims is None or claims.expires <= (time.time() if now is None else now):
            raise Problem(
                401,
                "ticket-refused",
                "The ticket has expired, or was issued by a server with another secret. "
                "Request a new one.",
            )
        caller = Caller(name=claims.name, scopes=frozenset({"read"}), tenant=claims.tenant)
        return caller, frozenset(claims.subjects)

    def _sign(self, body: bytes) -> bytes:
        return urlsafe_b64encode(hmac.digest(self._key, body, hashlib.sha256))
