"""What does not fit is told in words, with what is allowed."""

from collections.abc import Iterator
from typing import Any

import httpx

from penstock.service.problems import description_of
from tests.knowledge.http.conftest import document


def patterns_in(document: Any) -> Iterator[str]:
    if isinstance(document, list):
        for each in document:
            yield from patterns_in(each)
    elif isinstance(document, dict):
        if isinstance(document.get("pattern"), str):
            yield document["pattern"]
        for each in document.values():
            yield from patterns_in(each)


def test_every_pattern_of_the_api_has_words() -> None:
    found = set(patterns_in(document()))
    assert len(found) > 10
    assert {each for each in found if description_of(each) is None} == set()


# What is asked for, and the words of the answer.
ASKED = {
    "/documents?after=x": "query.after: Should be an id",
    "/documents/0": "path.id: Should be an id",
    "/knowledge-bases/x/progress?since=soon": "such as 24h",
}


async def test_a_text_of_another_form_is_told_in_words(http: httpx.AsyncClient) -> None:
    for path, words in ASKED.items():
        answer = await http.get(path)
        assert answer.status_code == 422, path
        assert words in answer.json()["detail"]
        assert "^" not in answer.text
    answer = await http.post("/upload/url", json={"url": "ftp://example.org"})
    assert "begins with http:// or https://" in answer.json()["detail"]


# Settings, and the field and the words of the answer.
UNFIT = [
    ({"embedding": {"provider": "foo"}}, "embedding.provider", "minilm, openai"),
    ({"embedding": {"modell": "x"}}, "embedding.modell", "there are provider, model"),
    ({"chunking": {"size": "x"}}, "chunking.size", "Expected `int`"),
]


async def test_unfit_recipe_names_its_field_and_what_is_allowed(http: httpx.AsyncClient) -> None:
    for settings, field, words in UNFIT:
        answer = await http.post("/knowledge-bases", json={"name": "x", **settings})
        assert answer.status_code == 422, settings
        [told] = answer.json()["fields"]
        assert told["field"] == field
        assert words in told["problem"]
