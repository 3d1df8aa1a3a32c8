"""Hash and verify passwords with argon2, two at a time."""

from __future__ import annotations

import asyncio
import secrets
from functools import cached_property
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from penstock.errors import ConfigError

MIN_LENGTH: Final = 10
MAX_LENGTH: Final = 1000
# Each hash takes 64 MiB and some 50 ms of several cores.
MAX_CONCURRENT_HASHES: Final = 2


class Passwords:
    """Hashes and verifies passwords in threads."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_HASHES)

    async def hash(self, password: str) -> str:
        """Return the hash to store. Raises ConfigError if the password is too short or too long."""
        if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
            raise ConfigError("password", "…", f"{MIN_LENGTH} to {MAX_LENGTH} characters")
        async with self._slots:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, password: str, stored_hash: str | None) -> bool:
        """Return whether a password matches the stored hash.

        Without a hash it returns False after the same time, so that the time does not reveal which
        users exist.
        """
        async with self._slots:
            return await asyncio.to_thread(self._compare, password[:MAX_LENGTH], stored_hash)

    def _compare(self, password: str, stored_hash: str | None) -> bool:
        # Read it in any case: the first time it is hashed, which takes time.
        dummy_hash = self._dummy_hash
        try:
            self._hasher.verify(stored_hash or dummy_hash, password)
        except (Argon2Error, InvalidHashError):
            return False
        return stored_hash is not None

    @cached_property
    def _dummy_hash(self) -> str:
        return self._hasher.hash(secrets.token_urlsafe(32))
