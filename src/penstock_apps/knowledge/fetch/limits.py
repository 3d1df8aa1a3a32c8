"""How much one page may take."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock import ConfigError

MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """`bytes` holds for what travels and for what it becomes unpacked; the others are seconds."""

    bytes: int = 100 * MB
    redirects: int = 5
    connect: float = 10.0
    read: float = 20.0
    total: float = 120.0
    # Whose text nobody can read here.
    unwanted: tuple[str, ...] = ("audio/", "video/", "font/")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, tuple) and value < 0:
                raise ConfigError(field.name, value, "a number that is not negative")
