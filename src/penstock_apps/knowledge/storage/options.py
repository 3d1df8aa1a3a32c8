"""How the storage is reached; credentials come from its maker's own variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from penstock import ConfigError

STORAGE = "PENSTOCK_KNOWLEDGE_STORAGE"
ENDPOINT = "PENSTOCK_KNOWLEDGE_STORAGE_ENDPOINT"
REGION = "PENSTOCK_KNOWLEDGE_STORAGE_REGION"
ALLOW_HTTP = "PENSTOCK_KNOWLEDGE_STORAGE_ALLOW_HTTP"
PATIENCE = "PENSTOCK_KNOWLEDGE_STORAGE_PATIENCE"

SECONDS = "seconds, more than 0 and up to 3600"
YES = ("1", "true", "yes", "on")
NO = ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Options:
    """`patience`: the seconds that one request may take, and one part of a large file."""

    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
    patience: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.patience <= 3600:
            raise ConfigError("patience", self.patience, SECONDS)

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Options:
        """As the environment has it."""
        return cls(
            endpoint=environment.get(ENDPOINT) or None,
            region=environment.get(REGION) or None,
            allow_http=_yes_or_no(ALLOW_HTTP, environment.get(ALLOW_HTTP, "")),
            patience=_seconds(PATIENCE, environment.get(PATIENCE) or "30"),
        )


def _yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in YES + NO:
        raise ConfigError(name, text, "true or false")
    return text.lower() in YES


def _seconds(name: str, text: str) -> float:
    try:
        return Options(patience=float(text)).patience
    except (ValueError, ConfigError):
        raise ConfigError(name, text, SECONDS) from None
