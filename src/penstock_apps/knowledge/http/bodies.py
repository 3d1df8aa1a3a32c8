"""The JSON bodies and forms of requests, and the messages about invalid ones."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec.inspect import LiteralType, StructType, type_info
from pydantic import Field, StrictBool, ValidationError, field_validator

from penstock.service.problems import Problem, described, misfit_message
from penstock.service.schemas import Id, StrictBody
from penstock_apps.knowledge.store.bases import Base, Recipe
from penstock_apps.knowledge.store.documents import Labels
from penstock_apps.knowledge.store.sources import NewSource


def recipe_from(values: dict[str, Any]) -> Recipe:
    """Build a recipe from the settings in a request; raise a Problem if one is not valid."""
    for place, struct in _parts().items():
        known = [field.encode_name for field in struct.fields]
        for name in values[place].keys() - known:
            raise _misfit(f"{place}.{name}", f"Is not known; there are {', '.join(known)}")
    try:
        return msgspec.convert(values, Recipe)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        raise _misfit(place.rstrip("`"), _describe(what, place.rstrip("`"))) from error


def _describe(what: str, place: str) -> str:
    """Return msgspec's message. For a choice, list the allowed values, which msgspec omits."""
    part, _, name = place.partition(".")
    fields = _parts()[part].fields if part in _parts() else ()
    for field in fields:
        if field.encode_name == name and isinstance(field.type, LiteralType):
            return f"Should be one of {', '.join(map(str, field.type.values))}"
    return what


def _parts() -> dict[str, StructType]:
    recipe = type_info(Recipe)
    assert isinstance(recipe, StructType)
    return {
        field.encode_name: field.type
        for field in recipe.fields
        if isinstance(field.type, StructType)
    }


def _misfit(place: str, message: str) -> Problem:
    return Problem(422, "does-not-fit", f"{place}: {message}.", fields=[(place, message)])


MAX_METADATA_BYTES = 16 * 1024
# Postgres cannot store NUL in a text.
TEXT = described(r"^[^\x00]*$", "a text without NUL")
PLAIN = described(r"^[^\x00-\x1f\x7f]+$", "a text without control characters")
LANGUAGE = described(r"^[a-z]{2,40}$", "the name of a language in small letters, such as english")
WEB = described(
    r"^https?://[^\x00-\x20\x7f]+$",
    "an address without spaces that begins with http:// or https://",
)

Named = Annotated[str, Field(min_length=1, max_length=200, pattern=PLAIN)]
Tag = Annotated[str, Field(min_length=1, max_length=100, pattern=PLAIN)]
Tags = Annotated[list[Tag], Field(max_length=32)]


class DocumentsBody(StrictBody):
    """Where documents are to go: into a base, and there into a source."""

    base: Named = "default"
    tags: Tags = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = 0

    @property
    def labels(self) -> Labels:
        """The tags and metadata for the documents of this request."""
        return Labels(tuple(self.tags), self.metadata)

    @field_validator("metadata", mode="before")
    @classmethod
    def _decode_metadata(cls, value: Any) -> Any:
        """Decode the metadata of a form, where it is a string of JSON."""
        if not isinstance(value, str):
            return value
        try:
            return msgspec.json.decode(value)
        except (msgspec.MsgspecError, RecursionError):
            raise ValueError("an object of JSON") from None

    @field_validator("metadata")
    @classmethod
    def _limit_metadata(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            encoded = msgspec.json.encode(value)
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            raise ValueError("an object of JSON") from None
        if len(encoded) > MAX_METADATA_BYTES or b"\\u0000" in encoded:
            raise ValueError(f"at most {MAX_METADATA_BYTES:,} bytes of JSON, without NUL")
        return value


class BaseWish(StrictBody):
    """The knowledge base to create. Settings that are left out have their defaults."""

    name: Named
    language: Annotated[
        str,
        Field(
            pattern=LANGUAGE,
            description="The text search configuration of Postgres for the documents.",
        ),
    ] = "english"
    embedding: dict[str, Any] = Field(default_factory=dict)
    chunking: dict[str, Any] = Field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the base. Raises a Problem if a setting is not valid."""
        return recipe_from({"embedding": self.embedding, "chunking": self.chunking})

    def differences(self, base: Base) -> dict[str, tuple[Any, Any]]:
        """Return the settings that differ from those of a base, as (existing, requested)."""
        existing = msgspec.to_builtins(base.target_recipe) | {"language": base.language}
        requested = msgspec.to_builtins(self.recipe) | {"language": self.language}
        # A setting that is omitted or empty is not compared.
        names = [name for name in existing if name in self.model_fields_set and getattr(self, name)]
        return {
            name: (existing[name], requested[name])
            for name in names
            if existing[name] != requested[name]
        }


class BaseChange(StrictBody):
    """The new settings of a knowledge base: how its documents are embedded, and cut into chunks."""

    embedding: dict[str, Any] | None = None
    chunking: dict[str, Any] | None = None

    def recipe(self, before: Recipe) -> Recipe:
        """Return `before` with these changes; raise a Problem if a setting is not valid."""
        parts = {"embedding": self.embedding, "chunking": self.chunking}
        changes = {name: part for name, part in parts.items() if part is not None}
        return recipe_from({**msgspec.to_builtins(before), **changes})


Limit = Annotated[int, Field(strict=True, ge=0, le=10**15)]


class QuotasWish(StrictBody):
    """The quotas of a tenant. 0 means no limit, and null means the installation's quota."""

    documents: Limit | None = None
    bytes: Limit | None = None
    chunks: Limit | None = None
    tokens: Limit | None = None


class TenantWish(StrictBody):
    """The changes to the settings of a tenant."""

    active: StrictBool | None = None
    quotas: QuotasWish | None = None
    inline: StrictBool | None = None
    background: StrictBool | None = None
    plan: Named | None = None
    raw_days: Annotated[float, Field(strict=True, gt=0, le=36_500)] | None = None


class UploadForm(DocumentsBody):
    """Where the files of an upload are to go.

    One that is sent again to the same source, by its id, its key or its name, adds nothing twice.
    """

    # A form holds it as text, so this is not strict.
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    source: Id | None = None
    name: Named = "uploads"
    key: Named | None = None

    @property
    def target(self) -> NewSource | int:
        if self.source is not None:
            return int(self.source)
        key = f"name:{self.name}" if self.key is None else f"key:{self.key}"
        return NewSource("files", self.name, key)


class TextWish(DocumentsBody):
    """A text with a name. It replaces the text of the same name in the same source."""

    name: Named
    text: Annotated[str, Field(min_length=1, max_length=4_000_000, pattern=TEXT)]
    source: Annotated[
        Named, Field(description="The name of the source that the text is added to.")
    ] = "texts"

    @property
    def target(self) -> NewSource:
        key = f"name:{self.source}"
        return NewSource("text", self.source, key)


class UrlWish(DocumentsBody):
    """The URL of a web page or of a file on the web."""

    url: Annotated[
        str,
        Field(
            max_length=2000,
            pattern=WEB,
            examples=["https://example.org/"],
        ),
    ]

    @property
    def target(self) -> NewSource:
        return NewSource("url", self.url, self.url)


def parse_upload_form(values: dict[str, Any]) -> UploadForm:
    """Validate the parameters and form fields of an upload; raise a Problem if any is invalid."""
    try:
        return UploadForm.model_validate(values)
    except ValidationError as error:
        fields = [
            (".".join(map(str, each["loc"])), misfit_message(each)) for each in error.errors()
        ]
        detail = "; ".join(f"{field}: {what}" for field, what in fields[:5])
        raise Problem(422, "does-not-fit", detail, fields=fields) from error


def parse_metadata(text: str | None) -> dict[str, Any]:
    """Decode the metadata of a query; raise a Problem unless it is a small JSON object."""
    try:
        return DocumentsBody.model_validate({"metadata": text or {}}).metadata
    except ValidationError as error:
        message = f"metadata has to be an object of JSON of at most {MAX_METADATA_BYTES:,} bytes."
        raise Problem(422, "does-not-fit", message, fields=[("metadata", message)]) from error
