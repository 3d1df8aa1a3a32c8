"""Model APIs over HTTP: what they are sent, and what becomes of their answers and refusals."""

import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from penstock import ConfigError, NotRetryable, Retryable
from penstock_apps.knowledge.embed import (
    CallRefused,
    Embedder,
    EmbedderMisfit,
    Embedding,
    KeyMissing,
    embedder_of,
)
from penstock_apps.knowledge.embed.cohere import Cohere
from penstock_apps.knowledge.embed.openai import OpenAI, key_variable
from penstock_apps.knowledge.embed.voyage import Voyage
from tests.knowledge.fixtures.models import COHERE, VOYAGE, Fault, Models, vector

KEY = "sk-secret"
PATIENCE = 30.0  # Nobody waits for so long, also where many share a machine.
TEXTS = ["the water", "a mill by the water", "a private letter"]


@pytest.fixture
async def models() -> AsyncIterator[Models]:
    async with Models() as models:
        yield models


@pytest.fixture(params=["openai", "cohere", "voyage"])
async def embedder(request: pytest.FixtureRequest, models: Models) -> AsyncIterator[Embedder]:
    environment = {
        "COHERE_API_KEY": KEY,
        "VOYAGE_API_KEY": KEY,
        key_variable(models.base_url): KEY,
    }
    made: Embedder
    match request.param:
        case "openai":
            settings = Embedding("openai", "words", 64, base_url=models.base_url)
            made = embedder_of(settings, environment, timeout=PATIENCE)
        case "cohere":
            settings = Embedding("cohere", "words", 64)
            made = Cohere(settings, environment, PATIENCE, models.url(COHERE))
        case _:
            settings = Embedding("voyage", "words", 64)
            made = Voyage(settings, environment, PATIENCE, models.url(VOYAGE))
    yield made
    await made.close()


async def test_each_text_gets_its_vector_of_length_one(embedder: Embedder) -> None:
    vectors = await embedder.embed(TEXTS)
    expected = np.array([vector(text, 64) for text in TEXTS], np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, expected, atol=1e-6)
    assert np.allclose(await embedder.embed_query(TEXTS[0]), expected[0], atol=1e-6)


async def test_a_call_is_made_as_the_provider_wants_it(embedder: Embedder, models: Models) -> None:
    await embedder.embed(TEXTS)
    await embedder.embed_query("where is the mill?")
    assert [call.texts for call in models.calls] == [TEXTS, ["where is the mill?"]]
    assert {call.key for call in models.calls} == {KEY}
    assert {call.body["model"] for call in models.calls} == {"words"}
    kinds = [call.body.get("input_type") for call in models.calls]
    match embedder:
        case Cohere():
            assert kinds == ["search_document", "search_query"]
            assert models.calls[0].body["embedding_types"] == ["float"]
        case Voyage():
            assert kinds == ["document", "query"]
        case _:
            assert kinds == [None, None]
    sent = models.calls[0].body.keys()
    assert not sent & {"dimensions", "output_dimension"}  # its own are not asked for


async def test_connections_are_used_again(embedder: Embedder, models: Models) -> None:
    for _ in range(5):
        await embedder.embed(TEXTS)
    assert len(models.connections) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_is_busy_says_when_to_come_back(
    embedder: Embedder, models: Models, status: int
) -> None:
    models.fail(Fault(status, {"Retry-After": "7"}))
    with pytest.raises(Retryable) as busy:
        await embedder.embed(TEXTS)
    assert busy.value.after == 7


async def test_when_to_come_back_may_be_a_date(embedder: Embedder, models: Models) -> None:
    now = datetime.now(UTC) - timedelta(hours=3)  # its clock is wrong, and that does not matter
    later = format_datetime(now + timedelta(seconds=20), usegmt=True)
    models.fail(Fault(429, {"Retry-After": later, "Date": format_datetime(now, usegmt=True)}))
    with pytest.raises(Retryable) as busy:
        await embedder.embed(TEXTS)
    assert busy.value.after == 20


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({}, None),
        ({"Retry-After": "0"}, 1),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "99999999"}, 86_400),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
    ],
)
async def test_what_else_a_server_may_say_about_it(
    embedder: Embedder, models: Models, headers: dict[str, str], after: float | None
) -> None:
    models.fail(Fault(429, headers))
    with pytest.raises(Retryable) as busy:
        await embedder.embed(TEXTS)
    assert busy.value.after == after


async def test_an_account_without_credit_is_left_alone_for_a_while(
    embedder: Embedder, models: Models
) -> None:
    models.fail(Fault(429, body={"error": {"code": "insufficient_quota"}}))
    with pytest.raises(Retryable, match="no credit") as busy:
        await embedder.embed(TEXTS)
    assert busy.value.after == 600


@pytest.mark.parametrize("status", [500, 502, 504, 529])
async def test_a_broken_server_is_asked_again(
    embedder: Embedder, models: Models, status: int
) -> None:
    models.fail(Fault(status))
    with pytest.raises(Retryable):
        await embedder.embed(TEXTS)
    assert len(await embedder.embed(TEXTS)) == 3


async def test_a_server_that_hangs_is_given_up(models: Models) -> None:
    settings = Embedding("openai", "words", 64, base_url=models.base_url)
    embedder = embedder_of(settings, {}, timeout=0.2)
    models.hang()
    started = time.monotonic()
    with pytest.raises(Retryable, match=r"did not answer in 0\.2 s"):
        await embedder.embed(TEXTS)
    assert time.monotonic() - started < PATIENCE
    await embedder.close()


async def test_a_server_that_is_not_there_is_asked_again() -> None:
    embedder = embedder_of(
        Embedding("openai", "words", 64, base_url="http://127.0.0.1:9/v1"), {}, timeout=PATIENCE
    )
    with pytest.raises(Retryable, match="ConnectError"):
        await embedder.embed(TEXTS)
    await embedder.close()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_not_tried_again(
    embedder: Embedder, models: Models, status: int
) -> None:
    models.fail(Fault(status))
    with pytest.raises(EmbedderMisfit, match=r"Check the environment variable \w+KEY") as refused:
        await embedder.embed(TEXTS)
    assert isinstance(refused.value, NotRetryable)


async def test_a_bad_text_is_found_by_halving(embedder: Embedder, models: Models) -> None:
    models.bad = "private"

    async def bad(texts: list[str]) -> list[str]:
        try:
            await embedder.embed(texts)
        except CallRefused as refused:
            half = refused.texts // 2
            return texts if not half else await bad(texts[:half]) + await bad(texts[half:])
        return []

    assert await bad(TEXTS) == ["a private letter"]


@pytest.mark.parametrize(
    "message",
    [
        "This model does not support specifying dimensions.",
        "invalid model: words",
        "model 'words' not found",
    ],
)
async def test_refused_settings_are_not_blamed_on_a_text(
    embedder: Embedder, models: Models, message: str
) -> None:
    models.fail(Fault(400, body={"error": {"message": message}}))
    with pytest.raises(EmbedderMisfit, match="Check model, dimensions and base_url"):
        await embedder.embed(TEXTS)


async def test_a_text_that_is_too_long_is_not_blamed_on_the_settings(
    embedder: Embedder, models: Models
) -> None:
    message = "This model's maximum context length is 8192 tokens, however you requested 9000"
    models.fail(Fault(400, body={"error": {"message": message}}))
    with pytest.raises(CallRefused, match="refused a text"):
        await embedder.embed(["long"])


async def test_a_model_that_is_not_there_is_not_asked_again(
    embedder: Embedder, models: Models
) -> None:
    models.fail(Fault(404))
    with pytest.raises(EmbedderMisfit, match="no such model"):
        await embedder.embed(TEXTS)


async def test_vectors_of_other_dimensions_are_refused(embedder: Embedder, models: Models) -> None:
    models.dimensions = 65
    with pytest.raises(EmbedderMisfit, match=r"of 65 dimensions; the settings say 64"):
        await embedder.embed(TEXTS)


async def test_fewer_vectors_than_texts_are_refused(embedder: Embedder, models: Models) -> None:
    models.short = 1
    with pytest.raises(EmbedderMisfit, match="2 vectors for 3 texts"):
        await embedder.embed(TEXTS)


async def test_an_answer_of_another_kind_is_refused(embedder: Embedder, models: Models) -> None:
    models.fail(Fault(200, body={"hello": "world"}))
    with pytest.raises(EmbedderMisfit, match="something other than embeddings"):
        await embedder.embed(TEXTS)


@pytest.mark.parametrize("status", [400, 401, 404, 418, 429, 500])
async def test_neither_texts_nor_keys_are_told(
    embedder: Embedder, models: Models, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    models.fail(Fault(status, body={"error": {"message": f"{KEY} private letter"}}))
    with pytest.raises((Retryable, NotRetryable)) as raised:
        await embedder.embed(TEXTS)
    told = f"{raised.value} {raised.value.__cause__} {caplog.text}"
    assert KEY not in told
    assert "letter" not in told


async def test_openai_is_asked_for_fewer_dimensions_in_base64(models: Models) -> None:
    settings = Embedding("openai", dimensions=256)
    embedder = OpenAI(settings, {"OPENAI_API_KEY": KEY}, PATIENCE, models.base_url)
    assert (await embedder.embed(TEXTS)).shape == (3, 256)
    (call,) = models.calls
    assert call.body == {
        "model": "text-embedding-3-small",
        "input": TEXTS,
        "dimensions": 256,
        "encoding_format": "base64",
    }
    await embedder.close()


async def test_documents_and_queries_get_their_prefixes(models: Models) -> None:
    settings = Embedding(
        "openai",
        "words",
        64,
        base_url=models.base_url,
        document_prefix="search_document: ",
        query_prefix="search_query: ",
    )
    embedder = embedder_of(settings, {})
    await embedder.embed(["a"])
    await embedder.embed_query("b")
    assert models.texts == ["search_document: a", "search_query: b"]
    await embedder.close()


def test_a_key_goes_to_no_other_server() -> None:
    """A base URL is a setting of a tenant, a key one of the house."""
    settings = Embedding("openai", "words", 64, base_url="https://models.acme.org:8443/v1")
    embedder = embedder_of(settings, {"OPENAI_API_KEY": KEY})
    assert isinstance(embedder, OpenAI)
    assert embedder._remote._key is None
    assert embedder._key_from == "PENSTOCK_EMBEDDING_KEY_MODELS_ACME_ORG_8443"


def test_a_base_url_holds_no_password() -> None:
    with pytest.raises(ConfigError, match="without a name and a password") as refused:
        Embedding("openai", "words", 64, base_url="https://user:hush@models.acme.org/v1")
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [("openai", "OPENAI_API_KEY"), ("cohere", "COHERE_API_KEY"), ("voyage", "VOYAGE_API_KEY")],
)
def test_a_missing_key_is_named(provider: str, variable: str) -> None:
    with pytest.raises(KeyMissing, match=variable):
        embedder_of(Embedding(provider), {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "dimensions"),
    [
        (Embedding("openai"), 1536),
        (Embedding("openai", "text-embedding-3-large", 1024), 1024),
        (Embedding("openai", "bge-m3", base_url="http://localhost:11434/v1"), 1024),
        (Embedding("cohere"), 1536),
        (Embedding("voyage", dimensions=512), 512),
    ],
)
def test_the_dimensions_of_known_models_need_not_be_said(
    settings: Embedding, dimensions: int
) -> None:
    keys = dict.fromkeys(("OPENAI_API_KEY", "COHERE_API_KEY", "VOYAGE_API_KEY"), KEY)
    embedder = embedder_of(settings, keys)
    assert embedder.dimensions == dimensions
    assert str(dimensions) in embedder.fingerprint
    assert embedder.shares_calls


def test_dimensions_that_are_not_known_must_be_said() -> None:
    with pytest.raises(ConfigError, match="the number of dimensions that the model mine has"):
        embedder_of(Embedding("openai", "mine", base_url="http://localhost/v1"), {})


def test_more_dimensions_than_a_model_has_are_refused() -> None:
    with pytest.raises(ConfigError, match="at most 1,536"):
        embedder_of(Embedding("openai", dimensions=2000), {"OPENAI_API_KEY": KEY})


def test_what_changes_vectors_changes_the_fingerprint() -> None:
    own = "http://localhost:11434/v1"
    made = [
        Embedding("openai"),
        Embedding("openai", dimensions=256),
        Embedding("openai", "text-embedding-3-large"),
        Embedding("openai", "text-embedding-3-small", base_url=own),
        Embedding("openai", "text-embedding-3-small", base_url=own, document_prefix="d: "),
        Embedding(),
    ]
    keys = {"OPENAI_API_KEY": KEY}
    assert len({embedder_of(each, keys).fingerprint for each in made}) == len(made)
    asked = Embedding("openai", query_prefix="q: ")
    assert (
        embedder_of(asked, keys).fingerprint == embedder_of(Embedding("openai"), keys).fingerprint
    )
