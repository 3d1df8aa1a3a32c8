"""The protocol of an embedder, its settings, its errors, and the dimensions of known models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from penstock import ConfigError, NotRetryable
from penstock_apps.knowledge.errors import KnowledgeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class KeyMissing(KnowledgeError, NotRetryable):
    """The environment has no key for a model API."""

    def __init__(self, provider: str, variable: str) -> None:
        self.variable = variable
        super().__init__(
            f"The embeddings of {provider} need a key: set the environment variable {variable} "
            "where the workers and the service run."
        )


class EmbedderMisfit(KnowledgeError, NotRetryable):
    """A model API refused the settings or the key, or its answer does not fit the call."""


class CallRefused(KnowledgeError, NotRetryable):
    """A model API refused a call, perhaps because of one of its texts.

    Send the texts again in halves to find the one that the API refuses. If there was a single text,
    it is the cause.
    """

    def __init__(self, provider: str, status: int, texts: int) -> None:
        self.status = status
        self.texts = texts
        refused = "a text" if texts == 1 else f"a call with {texts:,} texts"
        remedy = (
            (
                "It may be too long for the model, or contain something that the model does not "
                "accept."
            )
            if texts == 1
            else "One of them may be at fault. Send them in halves to find it."
        )
        super().__init__(f"{provider} has refused {refused} with {status}. {remedy}")


# In quotes, so that importing this module does not import numpy: see numeric.py.
Vectors: TypeAlias = "NDArray[np.float32]"


class Embedder(Protocol):
    """Turns texts into vectors of length 1."""

    @property
    def fingerprint(self) -> str:
        """A text that names the model and everything else that its vectors depend on.

        Vectors of embedders with different fingerprints cannot be compared.
        """

    @property
    def dimensions(self) -> int: ...

    @property
    def shares_calls(self) -> bool:
        """Whether calls are so slow or costly that many documents should share a call."""

    @property
    def max_texts(self) -> int:
        """The largest number of texts in a call."""

    @property
    def max_tokens(self) -> int:
        """The largest number of tokens in a call, as `Piece.tokens` counts them."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of the texts, one row for each text, in order."""

    async def embed_query(self, text: str) -> Vectors:
        """Return the vector of a question, to compare it with the vectors of documents."""

    async def close(self) -> None:
        """Close the connections. The embedder cannot be used afterwards."""


Provider = Literal["wordllama", "minilm", "openai", "cohere", "voyage"]

# An index over vectors of half precision takes no more.
MAX_DIMENSIONS: Final = 4000


class Embedding(Struct, frozen=True):
    """The model that makes the vectors. It is stored with the documents, so it holds no secret.

    API keys are read from the environment: OPENAI_API_KEY, COHERE_API_KEY, VOYAGE_API_KEY. The key
    of your own server has a variable for its host, so that no other server gets it:
    PENSTOCK_EMBEDDING_KEY_ and the host of `base_url`, such as
    PENSTOCK_EMBEDDING_KEY_MODELS_ACME_ORG.
    """

    provider: Provider = "wordllama"
    model: str | None = None
    dimensions: int | None = None
    """The dimensions of the vectors. None stands for those of the model, if Penstock knows it."""
    shorten: bool = False
    """Ask a model that Penstock does not know for `dimensions`. If this is False, the model is
    expected to have them by itself."""
    base_url: str | None = None
    """A server that speaks OpenAI's protocol (Ollama, vLLM, …), such as
    http://localhost:11434/v1."""
    document_prefix: str = ""
    query_prefix: str = ""
    """Some models need a prefix before each text: nomic-embed-text needs "search_query: "."""

    def __post_init__(self) -> None:
        if self.dimensions is not None and not 1 <= self.dimensions <= MAX_DIMENSIONS:
            raise ConfigError(
                "embedding.dimensions", self.dimensions, f"from 1 to {MAX_DIMENSIONS:,}"
            )
        if self.base_url is not None:
            _check_address(self.base_url)
        if self.provider != "openai":
            for name in ("base_url", "document_prefix", "query_prefix"):
                if value := getattr(self, name):
                    raise ConfigError(
                        f"embedding.{name}", value, "set for the provider openai alone"
                    )


def _check_address(url: str) -> None:
    if "@" in url:
        raise ConfigError("embedding.base_url", "…", "an address without a name and a password")
    if not url.startswith(("http://", "https://")) or not urlsplit(url).hostname:
        raise ConfigError("embedding.base_url", url, "an http or https address")


OPENAI_DIMENSIONS: Final = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
# Open models, as Ollama and others serve them.
OPEN_MODEL_DIMENSIONS: Final = {
    "all-minilm": 384,
    "bge-m3": 1024,
    "embeddinggemma": 768,
    "mxbai-embed-large": 1024,
    "nomic-embed-text": 768,
    "snowflake-arctic-embed2": 1024,
}
COHERE_DIMENSIONS: Final = {
    "embed-v4.0": 1536,
    "embed-english-v3.0": 1024,
    "embed-multilingual-v3.0": 1024,
    "embed-english-light-v3.0": 384,
    "embed-multilingual-light-v3.0": 384,
}
VOYAGE_DIMENSIONS: Final = {
    "voyage-3-large": 1024,
    "voyage-3.5": 1024,
    "voyage-3.5-lite": 1024,
    "voyage-code-3": 1024,
    "voyage-finance-2": 1024,
    "voyage-law-2": 1024,
}


def dimensions_of(settings: Embedding, model: str, known: Mapping[str, int]) -> tuple[int, bool]:
    """Return the number of dimensions of the vectors, and whether calls have to request it.

    `known` has the dimensions of models that Penstock knows. Raises `ConfigError` if the settings
    must give the number and do not, or if it is larger than the model's.
    """
    own = known.get(model)
    if settings.dimensions is None:
        if own is None:
            raise ConfigError(
                "embedding.dimensions", None, f"the number of dimensions that the model {model} has"
            )
        return own, False
    if own is None:
        return settings.dimensions, settings.shorten
    if settings.dimensions > own:
        raise ConfigError(
            "embedding.dimensions", settings.dimensions, f"at most {own:,} with {model}"
        )
    return settings.dimensions, settings.dimensions != own
