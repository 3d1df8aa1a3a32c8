"""What an installation sets, by environment variables that begin with PENSTOCK_KNOWLEDGE_."""

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
# The tenant of those who have only one.
DEFAULT_TENANT = "default"
# Where files are stored, and what the options of that begin with.
STORAGE_VARIABLE = "PENSTOCK_KNOWLEDGE_STORAGE"
# What the variables begin with that say what may be fetched.
FETCH_PREFIX = "PENSTOCK_KNOWLEDGE_FETCH"
MEMORY_EXAMPLE = "at least 64MB, such as 512MB or 2GB"

# The timeout of a job if extracting has no limit, or takes as long as it may.
MAX_JOB_S = 3600.0

Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0, le=1e6)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Settings(Struct, frozen=True, kw_only=True):
    """How knowledge is taken in here. Each can be set as PENSTOCK_KNOWLEDGE_<NAME>.

    An upload of at most `inline_files` files and `inline_bytes` bytes is waited for, up to
    `inline_seconds`; `inline_share` is the share of tenants for whom this is so, `inline` for all.
    """

    storage: str | None = None
    link_secret: str | None = None
    large_bytes: Count = 2 * MB
    inline: bool = True
    inline_share: Share = 1.0
    inline_files: Count = 5
    inline_bytes: Count = 5 * MB
    inline_seconds: Amount = 20.0
    # Other uploads are answered at once, and come in in the background. Where that is switched off,
    # or a tenant is not among those for whom it is on, they are waited for as well.
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
    # A document whose job fails is tried again after `retry_seconds`, then after twice as long each
    # time, up to `retry_most_seconds`, until `attempts` have failed.
    attempts: Annotated[int, Meta(ge=1, le=1_000)] = 5
    retry_seconds: Amount = 30.0
    retry_most_seconds: Amount = 600.0
    # A file whose child process has died so often is not tried again.
    deaths: Annotated[int, Meta(ge=1, le=100)] = 2
    # The same as `attempts` and `retry_seconds`, for texts that are sent to a remote model.
    embed_attempts: Annotated[int, Meta(ge=1, le=1_000)] = 10
    embed_retry_seconds: Amount = 2.0
    embed_retry_most_seconds: Amount = 300.0
    # More chunks than these are searched by an index, which is made with so much memory at most.
    index_from: Count = 10_000
    index_bytes: Count = 512 * MB
    # Who reads PDF, DOCX and PPTX: we ourselves, or LlamaParse, with LLAMA_CLOUD_API_KEY.
    parser: Literal["own", "llamaparse"] = "own"
    parser_url: str | None = None
    # Each tenant's allowance unless it has its own; 0 is no limit.
    quota_documents: Count = 0
    quota_bytes: Count = 0
    quota_chunks: Count = 0
    quota_tokens: Count = 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """The settings of the environment over the defaults."""
        given: dict[str, Any] = {
            field: environment[name]
            for field in cls.__struct_fields__
            if environment.get(name := variable_of(field))
        }
        try:
            found = msgspec.convert(given, cls, strict=False)
        except msgspec.ValidationError as error:
            field = str(error).rpartition("`$.")[2].rstrip("`")
            raise ConfigError(
                variable_of(field), given.get(field), _allowed_values(field)
            ) from error
        if found.link_secret and len(found.link_secret.encode()) < MIN_SECRET_BYTES:
            raise ConfigError(variable_of("link_secret"), "…", f"at least {MIN_SECRET_BYTES} bytes")
        try:
            Process(memory=found.extract_memory)
        except ConfigError as error:
            raise ConfigError(
                variable_of("extract_memory"), found.extract_memory, MEMORY_EXAMPLE
            ) from error
        return found

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """As rich and `repr` show it: who has the secret can open every file."""
        values = asdict(self) | {"link_secret": self.link_secret and "…"}
        return list(values.items())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Settings({shown})"

    @property
    def apart(self) -> Process:
        """The child processes in which files are read; no time is no limit."""
        return Process(
            memory=self.extract_memory, time=self.extract_seconds or None, deaths=self.deaths
        )

    def timeout(self, size: int) -> float:
        """How long the job of a document of this size may take."""
        seconds = ceil(self.extract_least_seconds + self.extract_seconds_per_mb * size / MB)
        # At `extract_seconds` the child process is killed, well before its job's time is up.
        return max(1, seconds) if seconds < self.extract_seconds else MAX_JOB_S

    @property
    def plans(self) -> frozenset[str]:
        """The plans whose tenants have the background; none: all have it."""
        return frozenset(filter(None, map(str.strip, self.background_plans.split(","))))

    @property
    def retry(self) -> Exponential:
        """How long a document waits after a failure."""
        return Exponential(base=self.retry_seconds, cap=self.retry_most_seconds)

    @property
    def embed_retry(self) -> Exponential:
        """How long texts wait after a call to their model has failed."""
        return Exponential(base=self.embed_retry_seconds, cap=self.embed_retry_most_seconds)

    def storage_at(self, database: Database) -> str:
        """Where files are stored: as it is set, else beside an embedded database's own."""
        if self.storage:
            return self.storage
        return str(Path(database.data_dir or ".penstock").absolute() / "objects")


def variable_of(field: str) -> str:
    """The variable that sets it."""
    return PREFIX + field.upper()


def _allowed_values(field: str) -> str:
    """What a setting may be, in words."""
    told = type_info(Settings)
    assert isinstance(told, StructType)
    [kind] = [each.type for each in told.fields if each.name == field]
    match kind:
        case LiteralType():
            return " or ".join(map(str, kind.values))
        case BoolType():
            return "true or false"
    assert isinstance(kind, IntType | FloatType)
    number = "a whole number" if isinstance(kind, IntType) else "a number"
    return f"{number} >= {kind.ge}" + ("" if kind.le is None else f" and <= {kind.le:,.0f}")
