"""The model from the wheel: its own vectors, offline, without a thread."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec import json

from penstock import ConfigError
from penstock_apps.knowledge.embed import Embedding, embedder_of
from penstock_apps.knowledge.embed.wordllama import WordLlama

README = (Path(__file__).parents[3] / "README.md").read_text()
TEXTS = [README[start : start + 900] for start in range(0, len(README), 900)] + ["Ein Wort", "水"]


async def test_vectors_have_length_one_and_a_row_a_text() -> None:
    embedder = embedder_of(Embedding(), {})
    vectors = await embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


async def test_a_query_is_embedded_as_a_document_is() -> None:
    embedder = embedder_of(Embedding(), {})
    assert np.array_equal(await embedder.embed_query("water"), (await embedder.embed(["water"]))[0])


async def test_what_means_the_same_is_near() -> None:
    embedder = embedder_of(Embedding(), {})
    vectors = await embedder.embed(
        ["How do I restore a database backup?", "Recover the data from a dump", "A cake with plums"]
    )
    likeness = vectors @ vectors[0]
    assert likeness[1] > likeness[2] + 0.1


async def test_no_text_and_an_empty_text_are_no_error() -> None:
    embedder = embedder_of(Embedding(), {})
    assert (await embedder.embed([])).shape == (0, 256)
    assert np.isfinite(await embedder.embed([""])).all()


@pytest.mark.parametrize("dimensions", [64, 128])
async def test_fewer_dimensions_are_the_first_ones(dimensions: int) -> None:
    whole, part = (WordLlama(Embedding(dimensions=each)) for each in (256, dimensions))
    cut = (await whole.embed(TEXTS))[:, :dimensions]
    cut /= np.linalg.norm(cut, axis=1, keepdims=True)
    assert np.allclose(await part.embed(TEXTS), cut, atol=1e-5)
    assert part.fingerprint != whole.fingerprint


def test_settings_are_stored_as_json() -> None:
    settings = Embedding("openai", "nomic-embed-text", base_url="http://localhost:11434/v1")
    assert json.decode(json.encode(settings), type=Embedding) == settings


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"dimensions": 300}, "dimensions"),
        ({"dimensions": 5000}, "dimensions"),
        ({"model": "gpt-4"}, "model"),
        ({"base_url": "http://localhost/v1"}, "base_url"),
        ({"provider": "openai", "base_url": "localhost"}, "base_url"),
        ({"query_prefix": "query: "}, "query_prefix"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError, match=f"embedding.{name}"):
        embedder_of(Embedding(**settings), {})  # type: ignore[arg-type]


IN_A_PROCESS_OF_ITS_OWN = """
import json, os, socket, sys

def no_network(*args):
    raise AssertionError("it wants to download something")

socket.socket.connect = no_network
from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.embed import Embedding, embedder_of
from penstock_apps.knowledge.text import Extracted, Section

light = "numpy" not in sys.modules
embedder = embedder_of(Embedding(), {})
piece, = split(Extracted((Section("Water flows."),), "text"), Chunking())
vectors = embedder.vectors([piece.embedded] * 100)
tasks = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 1
print(json.dumps({
    "light": light,
    "threads": tasks,
    "environment": "OPENBLAS_NUM_THREADS" in os.environ,
    "imported": sorted({"wordllama", "requests", "huggingface_hub", "torch"} & set(sys.modules)),
}))
"""


def test_it_starts_no_thread_and_downloads_nothing() -> None:
    """A process with threads could not be forked for isolated jobs."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN], capture_output=True, check=True, timeout=60
    )
    assert json.decode(done.stdout) == {
        "light": True,
        "threads": 1,
        "environment": False,
        "imported": [],
    }


OF_THE_PACKAGE = """
import sys
from pathlib import Path
import numpy, wordllama
from wordllama import WordLlama
model = WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
numpy.save(sys.stdout.buffer, model.embed(sys.stdin.read().split("\\0"), norm=True))
"""


def test_its_vectors_are_those_of_the_package() -> None:
    # In a process of its own: the package changes the logging of who imports it.
    done = subprocess.run(
        [sys.executable, "-c", OF_THE_PACKAGE],
        input="\0".join(TEXTS).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    header = done.stdout.index(b"\n") + 1
    theirs = np.frombuffer(done.stdout[header:], np.float32).reshape(len(TEXTS), 256)
    assert np.allclose(WordLlama(Embedding()).vectors(TEXTS), theirs, atol=1e-5)
