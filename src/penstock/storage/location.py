"""Parse the URL and the options of a storage, and open its store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig


# An option's variable is the storage's variable, an underscore, and one of these.
OPTION_SUFFIXES = ("ENDPOINT", "REGION", "ALLOW_HTTP", "PATIENCE")

SECONDS = "seconds, more than 0 and up to 3600"
YES = ("1", "true", "yes", "on")
NO = ("", "0", "false", "no", "off")


Store = LocalStore | S3Store | GCSStore | AzureStore
Remote = S3Store | GCSStore | AzureStore
# A few retries are enough: a job that fails is tried again later, where everybody can see it.
MAX_RETRIES = 2
ALLOWED = "a folder, file:///folder, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix"


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """The options of a storage.

    `patience` is the number of seconds that a request, or one part of a large file, may take.
    `variable` is the environment variable with the URL of the storage, or the name of the argument
    if the options do not come from the environment. Errors name it as the cause.
    """

    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
    patience: float = 30.0
    variable: str = "url"

    def __post_init__(self) -> None:
        if not 0 < self.patience <= 3600:
            raise ConfigError("patience", self.patience, SECONDS)

    @classmethod
    def of(cls, variable: str, environment: Mapping[str, str] = os.environ) -> StorageOptions:
        """Read the options from variables such as `<variable>_REGION`."""
        endpoint, region, allow_http, patience = (f"{variable}_{name}" for name in OPTION_SUFFIXES)
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
        return StorageOptions(patience=float(text)).patience
    except (ValueError, ConfigError):
        raise ConfigError(name, text, SECONDS) from None


def folder_at(url: str) -> Path | None:
    """Return the local folder that a URL or path names, or None for a URL of a bucket."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return Path(unquote(parts.path))
    return None if "://" in url or not url else Path(url).expanduser().absolute()


def remote_at(url: str, options: StorageOptions) -> Remote:
    """Return the store of the bucket or container that a URL names."""
    parts = urlsplit(url)
    prefix = unquote(parts.path).strip("/") or None
    if parts.username or parts.query or parts.fragment or not parts.netloc:
        raise ConfigError(options.variable, _without_secrets(url), ALLOWED)
    client, retry = _client(options), _retry(options)
    match parts.scheme:
        case "s3":
            config = _without_none(endpoint=options.endpoint, region=options.region)
            return S3Store(
                parts.netloc,
                prefix=prefix,
                config=config,  # type: ignore[arg-type]
                client_options=client,
                retry_config=retry,
            )
        case "gs":
            config = _without_none(base_url=options.endpoint)
            return GCSStore(
                parts.netloc,
                prefix=prefix,
                config=config,  # type: ignore[arg-type]
                client_options=client,
                retry_config=retry,
            )
        case "az":
            config = _without_none(endpoint=options.endpoint)
            return AzureStore(
                parts.netloc,
                prefix=prefix,
                config=config,  # type: ignore[arg-type]
                client_options=client,
                retry_config=retry,
            )
    raise ConfigError(options.variable, _without_secrets(url), ALLOWED)


def _without_none(**values: str | None) -> dict[str, str]:
    """Return the options that are not None. The store reads the others from the environment."""
    return {key: value for key, value in values.items() if value is not None}


def _client(options: StorageOptions) -> ClientConfig:
    patience = timedelta(seconds=options.patience)
    return {
        "allow_http": options.allow_http,
        "connect_timeout": min(timedelta(seconds=5), patience),
        "read_timeout": patience,
        # This holds for a whole response, which may have gigabytes. Each read has its own timeout.
        "timeout": timedelta(hours=6),
    }


def _retry(options: StorageOptions) -> RetryConfig:
    return {
        "max_retries": MAX_RETRIES,
        "retry_timeout": timedelta(seconds=options.patience),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=2),
            "base": 2,
        },
    }


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
