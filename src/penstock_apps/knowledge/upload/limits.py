"""How much one upload may bring."""

from __future__ import annotations

from dataclasses import dataclass, fields

from penstock import ConfigError

KB, MB, GB = 1024, 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one request; each is a largest number that is still allowed."""

    file_bytes: int = 2 * GB
    files: int = 10_000
    request_bytes: int = 20 * GB
    field_bytes: int = 64 * KB
    fields: int = 1_000
    header_bytes: int = 16 * KB

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise ConfigError(field.name, value, "a whole number, at least 1")
