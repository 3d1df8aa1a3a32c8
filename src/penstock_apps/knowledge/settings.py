"""The settings of an installation: environment variables named PENSTOCK_KNOWLEDGE_<NAME>."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.inspect import BoolType, FloatType, IntType, LiteralType, StructType, type_info
from msgspec.structs import asdict

from penstock import ConfigError, Database, Exponential, Process
from penstock.storage.links import MIN_SECRET_BYTES

PREFIX = "PENSTOCK_KNOWLEDGE_"
MB = 1024 * 1024
# The tenant of installations that have only one.
DEFAULT_TENANT = "default"
# The variable for where files are stored, and the prefix of its options.
STORAGE_VARIABLE = "PENSTOCK_KNOWLEDGE_STORAGE"
# The prefix of the variables that allow addresses to be fetched.
FETCH_PREFIX = "PENSTOCK_KNOWLEDGE_FETCH"
MEMORY_EXAMPLE = "at least 64MB, such as 512MB or 2GB"

# The timeout of a job whose extraction has no time limit, or the longest one.
MAX_JOB_S = 3600.0

Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Settings(Struct, frozen=True, kw_only=True):
    """The settings. Each field is read from PENSTOCK_KNOWLEDGE_<NAME>.

    The service waits up to `inline_seconds` for the documents of an upload that has at most
    `inline_files` files and `inline_bytes` bytes, before it answers the upload. `inline` turns this
    on for all tenants, and `inline_share` limits it to a share of them.
    """

    storage: str | None = None
    link_secret: str | None = None
    large_bytes: Count = 2 * MB
    inline: bool = True
    inline_share: Share = 1.0
    inline_files: Count = 5
    inline_bytes: Count = 5 * MB
    inline_seconds: Amount = 20.0
    # Other uploads are answered at once, and ingested in the background. Where that is off, or off
    # for a tenant, the service waits for them as well.
    background: bool = True
    background_share: Share = 1.0
    background_plans: str = ""
    background_least_documents: Count = 0
    background_most_documents: Count = 0
    wait_seconds: Amount = 50.0
    raw_days: Amount = 7.0
    file_bytes: Count = 512 * MB
    request_files: Count = 20_000
    pages: Count = 5_000
    inflated_bytes: Count = 1024 * MB
    characters: Count = 50_000_000
    extract_memory: str = "1GB"
    # A document may take `extract_least_seconds`, plus `extract_seconds_per_mb` for each MB of it,
    # up to `extract_seconds`. If `extract_seconds` is 0, there is no limit.
    extract_seconds: Amount = 600.0
    extract_least_seconds: Amount = 120.0
    extract_seconds_per_mb: Amount = 120.0
    # A failed document is retried after `retry_seconds`, then after twice as long each time, up to
    # `retry_most_seconds`, until `attempts` have failed.
    attempts: Annotated[int, Meta(ge=1, le=1_000)] = 5
    retry_seconds: Amount = 30.0
    retry_most_seconds: Amount = 600.0
    # A file whose child process has died this many times is not retried.
    deaths: Annotated[int, Meta(ge=1, le=100)] = 2
    # The same as `attempts` and `retry_seconds`, for texts that are sent to a remote model.
    embed_attempts: Annotated[int, Meta(ge=1, le=1_000)] = 10
    embed_retry_seconds: Amount = 2.0
    embed_retry_most_seconds: Amount = 300.0
    # An edition with more chunks gets a vector index, which is built with at most `index_bytes`.
    index_from: Count = 10_000
    index_bytes: Count = 512 * MB
    # What reads PDF, DOCX and PPTX: Penstock itself, or LlamaParse, with LLAMA_CLOUD_API_KEY.
    parser: Literal["own", "llamaparse"] = "own"
    parser_url: str | None = None
    # The quotas of tenants that have none of their own; 0 means no limit.
    quota_documents: Count = 0
    quota_bytes: Count = 0
    quota_chunks: Count = 0
    quota_tokens: Count = 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings from the environment; raise ConfigError for a bad value."""
        values: dict[str, Any] = {
            field: environment[name]
            for field in cls.__struct_fields__
            if environment.get(name := variable_of(field))
        }
        try:
            settings = msgspec.convert(values, cls, strict=False)
        except msgspec.ValidationError as error:
            field = str(error).rpartition("`$.")[2].rstrip("`")
            raise ConfigError(
                variable_of(field), values.get(field), _allowed_values(field)
            ) from error
        if settings.link_secret and len(settings.link_secret.encode()) < MIN_SECRET_BYTES:
            raise ConfigError(variable_of("link_secret"), "…", f"at least {MIN_SECRET_BYTES} bytes")
        try:
            Process(memory=settings.extract_memory)
        except ConfigError as error:
            raise ConfigError(
                variable_of("extract_memory"), settings.extract_memory, MEMORY_EXAMPLE
            ) from error
        return settings

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Hide `link_secret` from rich and `repr`, since it can open every file."""
        values = asdict(self) | {"link_secret": self.link_secret and "…"}
        return list(values.items())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Settings({shown})"

    @property
    def extract_process(self) -> Process:
        """The limits of the child processes that read files."""
        return Process(
            memory=self.extract_memory, time=self.extract_seconds or None, deaths=self.deaths
        )

    def timeout(self, size: int) -> float:
        """Return the timeout, in seconds, of the job for a document of this size."""
        seconds = ceil(self.extract_least_seconds + self.extract_seconds_per_mb * size / MB)
        # The child process is killed after `extract_seconds`, well before its job times out.
        return max(1, seconds) if seconds < self.extract_seconds else MAX_JOB_S

    @property
    def plans(self) -> frozenset[str]:
        """The plans whose tenants have background processing; if empty, all tenants have it."""
        return frozenset(filter(None, map(str.strip, self.background_plans.split(","))))

    @property
    def retry(self) -> Exponential:
        """The delay before a failed document is retried."""
        return Exponential(base=self.retry_seconds, cap=self.retry_most_seconds)

    @property
    def embed_retry(self) -> Exponential:
        """The delay before texts are sent again after a call to their model failed."""
        return Exponential(base=self.embed_retry_seconds, cap=self.embed_retry_most_seconds)

    def storage_at(self, database: Database) -> str:
        """Return where files are stored.

        Without the setting `storage`, this is the folder `objects` in the data folder of the
        embedded database, or in `.penstock` if there is none.
        """
        if self.storage:
            return self.storage
        return str(Path(database.data_dir or ".penstock").absolute() / "objects")


def variable_of(field: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + field.upper()


def _allowed_values(field: str) -> str:
    """Describe the allowed values of a setting."""
    settings = type_info(Settings)
    assert isinstance(settings, StructType)
    [kind] = [each.type for each in settings.fields if each.name == field]
    match kind:
        case LiteralType():
            return " or ".join(map(str, kind.values))
        case BoolType():
            return "true or false"
    assert isinstance(kind, IntType | FloatType)
    number = "a whole number" if isinstance(kind, IntType) else "a number"
    return f"{number} >= {kind.ge}" + ("" if kind.le is None else f" and <= {kind.le:,.0f}")
