"""Tokens counted word by word are those of the whole text."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from penstock_apps.knowledge import tokens as module
from penstock_apps.knowledge.tokens import TOKENIZER, tokens, wheel

WHOLE = Tokenizer.from_file(str(wheel(TOKENIZER)))
TEXT = st.one_of(
    st.text(max_size=200),
    st.text("ab \n\t.,1é水▁", max_size=60),
    st.lists(st.sampled_from(["  ", " ", "\n", "word", "Words", ".", "'s", "x_y"])).map("".join),
)


@settings(max_examples=200, deadline=None)
@example("  two  spaces\n\n    and lines\r\n\ttabs ")
@given(TEXT.filter(lambda text: "<" not in text and text))
def test_the_tokens_of_a_text_are_those_of_its_words(text: str) -> None:
    ids = WHOLE.encode(text, add_special_tokens=False).ids
    assert tokens().ids(text) == ids
    assert tokens().count(text) == len(ids)


def test_the_tokens_of_a_page_are_those_of_its_words() -> None:
    text = (Path(__file__).parents[3] / "README.md").read_text()
    assert tokens().ids(text) == WHOLE.encode(text, add_special_tokens=False).ids


def test_words_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 10)
    module.tokens.cache_clear()
    counter = tokens()
    text = " ".join(f"word{number}" for number in range(50))
    assert counter.count(text) == len(WHOLE.encode(text, add_special_tokens=False).ids)
    assert len(counter._words) <= 10
    module.tokens.cache_clear()
