"""How the storage is reached; credentials come from its maker's own variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from penstock import ConfigError

# The variables of the options are that of the storage, an underscore, and one of these.
OPTION_NAMES = ("ENDPOINT", "REGION", "ALLOW_HTTP", "PATIENCE")

SECONDS = "seconds, more than 0 and up to 3600"
YES = ("1", "true", "yes", "on")
NO = ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Options:
    """`patience`: the seconds that one request may take, and one part of a large file.

    `variable` is the environment variable that says where the storage is: errors name it.
    """

    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
    patience: float = 30.0
    variable: str = "PENSTOCK_STORAGE"

    def __post_init__(self) -> None:
        if not 0 < self.patience <= 3600:
            raise ConfigError("patience", self.patience, SECONDS)

    @classmethod
    def of(cls, variable: str, environment: Mapping[str, str] = os.environ) -> Options:
        """The options that the environment sets beside this variable, as `<variable>_REGION`."""
        endpoint, region, allow_http, patience = (f"{variable}_{name}" for name in OPTION_NAMES)
        return cls(
            endpoint=environment.get(endpoint) or None,
            region=environment.get(region) or None,
            allow_http=_yes_or_no(allow_http, environment.get(allow_http, "")),
            patience=_seconds(patience, environment.get(patience) or "30"),
            variable=variable,
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
