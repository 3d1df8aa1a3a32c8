"""Tokens counted word by word are those of the whole text."""

import re
import string
from itertools import pairwise, product
from pathlib import Path
from string import ascii_letters

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from penstock_apps.knowledge import tokens as module
from penstock_apps.knowledge.tokens import TOKENIZER, tokens, wheel_file

WHOLE = Tokenizer.from_file(str(wheel_file(TOKENIZER)))
TEXT = st.one_of(
    st.text(max_size=200),
    st.text("ab \n\t.,1é水▁", max_size=60),
    st.text("aB .,-_1é”\t(", max_size=60),
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


def test_tokens_mix_no_letters_signs_and_digits() -> None:
    """A word may be asked for in parts: no merge of the model reaches from one into the next."""
    told = [each for each in WHOLE.get_vocab() if not re.fullmatch(r"<0x..>|<s>|</s>|<unk>", each)]
    pairs = {pair for each in told for pair in pairwise(each)}
    letters, digits = set(ascii_letters), set(string.digits)
    signs = {chr(code) for code in range(128)} - letters - digits - {" "}
    assert ("t", "h") in pairs
    assert not pairs & set(product(letters, signs | digits | {"▁"}))
    assert not pairs & set(product(signs | digits, letters | {"▁"}))
    assert not pairs & set(product(signs, digits))
    assert not pairs & set(product(digits, signs | digits))


@pytest.mark.parametrize(
    "text",
    [
        "``CONFIG_HZ=1000``, see <https://example.org/a-b/c.d?e=f#g>; don't",
        "        0x7f4a5eea71f5: __x64_sys_read+0x1a/0x20 [k] (99.5%)",
        "naïve–word's «quoted».Then 12,345.67€ and 水water水",
        "-----====  |  a|b  |\n   ----",
        "foo\tbar\x0bbaz9qux",
    ],
)
def test_the_tokens_of_rare_words_are_those_of_their_parts(text: str) -> None:
    assert tokens().ids(text) == WHOLE.encode(text, add_special_tokens=False).ids


def test_words_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_WORDS", 10)
    module.tokens.cache_clear()
    counter = tokens()
    text = " ".join(f"word{number}" for number in range(50))
    assert counter.count(text) == len(WHOLE.encode(text, add_special_tokens=False).ids)
    assert len(counter._words) <= 10
    assert len(counter._words._shards) <= 10
    module.tokens.cache_clear()
