"""What an installation sets, by environment variables that begin with PENSTOCK_KNOWLEDGE_."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from penstock import ConfigError, Database

PREFIX = "PENSTOCK_KNOWLEDGE_"
MB = 1024 * 1024
# The tenant of those who have only one.
ALONE = "default"


class Settings(Struct, frozen=True, kw_only=True):
    """How knowledge is taken in here. Each can be set as PENSTOCK_KNOWLEDGE_<NAME>.

    An upload of at most `inline_files` files and `inline_bytes` bytes is waited for, up to
    `inline_seconds`; `inline_share` is the share of tenants for whom this is so, `inline` for all.
    """

    storage: str | None = None
    link_secret: str | None = None
    large_bytes: int = 2 * MB
    inline: bool = True
    inline_share: float = 1.0
    inline_files: int = 5
    inline_bytes: int = 5 * MB
    inline_seconds: float = 20.0
    raw_days: float = 7.0
    file_bytes: int = 512 * MB
    request_files: int = 20_000
    pages: int = 5_000
    inflated_bytes: int = 1024 * MB
    characters: int = 50_000_000
    extract_memory: str = "1GB"
    extract_seconds: float = 600.0
    # More chunks than these are searched by an index, which is made with so much memory at most.
    index_from: int = 10_000
    index_bytes: int = 512 * MB
    # Who reads PDF, DOCX and PPTX: we ourselves, or LlamaParse, with LLAMA_CLOUD_API_KEY.
    parser: Literal["own", "llamaparse"] = "own"
    parser_url: str | None = None
    # Each tenant's allowance unless it has its own; 0 is no limit.
    quota_documents: int = 0
    quota_bytes: int = 0
    quota_chunks: int = 0
    quota_tokens: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """The settings of the environment over the defaults."""
        given: dict[str, Any] = {
            field: environment[name]
            for field in cls.__struct_fields__
            if environment.get(name := PREFIX + field.upper())
        }
        try:
            return msgspec.convert(given, cls, strict=False)
        except msgspec.ValidationError as error:
            name, _, _ = str(error).rpartition("`$.")[2].partition("`")
            setting = PREFIX + name.upper()
            raise ConfigError(setting, environment.get(setting), str(error)) from error

    def storage_at(self, database: Database) -> str:
        """Where files are stored: as it is set, else beside an embedded database's own."""
        if self.storage:
            return self.storage
        return str(Path(database.data_dir or ".penstock").absolute() / "objects")
