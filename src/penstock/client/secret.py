"""Keys as text: what a program holds, and what is kept of it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final, NamedTuple

ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
_TEXT: Final = re.compile(r"pk_([0-9a-z]{8,32})_([A-Za-z0-9_-]{43})")


class Secret(NamedTuple):
    """A key: its id, which is public, and a random text of 256 bits, which nobody keeps."""

    id: str
    text: str

    @classmethod
    def new(cls) -> Secret:
        return cls(secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES))

    @classmethod
    def read(cls, key: str) -> Secret | None:
        """What a text says that may be a key; None if it cannot be one."""
        found = _TEXT.fullmatch(key)
        return None if found is None else cls(*found.groups())

    @property
    def key(self) -> str:
        """The whole key, as its owner is shown it once."""
        return f"pk_{self.id}_{self.text}"

    @property
    def hash(self) -> bytes:
        """What is kept. A random text needs neither salt nor a slow hash."""
        return hash_of(self.text)

    def fits(self, kept: bytes) -> bool:
        return hmac.compare_digest(self.hash, kept)

    def __repr__(self) -> str:
        return f"Secret({self.id}, …)"


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
