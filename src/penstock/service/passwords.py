"""Passwords: argon2, a few at a time."""

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
# Each takes 64 MiB and some 50 ms of several cores.
MAX_CONCURRENT_HASHES: Final = 2


class Passwords:
    """Hashes and compares passwords in threads."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._turn = asyncio.Semaphore(MAX_CONCURRENT_HASHES)

    async def hash(self, password: str) -> str:
        """What is kept of a password; one that is too short is refused."""
        if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
            raise ConfigError("password", "…", f"{MIN_LENGTH} to {MAX_LENGTH} characters")
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def fits(self, password: str, kept: str | None) -> bool:
        """Whether it is the password; without one to compare with it is as much work to say no."""
        async with self._turn:
            return await asyncio.to_thread(self._compare, password[:MAX_LENGTH], kept)

    def _compare(self, password: str, kept: str | None) -> bool:
        nobodys = self._nobodys
        try:
            self._hasher.verify(kept or nobodys, password)
        except (Argon2Error, InvalidHashError):
            return False
        return kept is not None

    @cached_property
    def _nobodys(self) -> str:
        return self._hasher.hash(secrets.token_urlsafe(32))
