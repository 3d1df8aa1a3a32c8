"""Count and list the tokens of a text, with the tokenizer in the wheel of wordllama.

The package itself is not imported: that takes half a second, and configures the root logger.
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
# No token crosses the end of a word or of a line, so the tokens of a text are those of these parts,
# one after the other.
PART: Final = re.compile(r"\n|[ ▁]*[^ ▁\n]+|[ ▁]+")
# No token mixes English letters with signs, or a digit with anything else. So rare words, such as
# addresses and rows of tables, consist of parts that are frequent.
SHARD: Final = re.compile(r" *[A-Za-z]+| *[0-9]+| *[^A-Za-z0-9 ]+| +")
# Texts repeat their words. A cache of 100,000 takes some 20 MB; long words seldom occur twice.
MAX_CACHED_WORDS: Final = 100_000
MAX_CACHED_CHARACTERS: Final = 40
MAX_CACHED_PIECES: Final = 1024


def wheel_file(file: str) -> Path:
    """Return the path of a file in wordllama's wheel; raise NotInstalled without the package."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise NotInstalled("wordllama", "knowledge")
    return Path(spec.submodule_search_locations[0]) / file


class Shards(dict[str, tuple[int, ...]]):
    """A cache of the tokens of word parts."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._tokens = model.tokenize

    def __missing__(self, shard: str) -> tuple[int, ...]:
        ids = tuple([token.id for token in self._tokens(shard.replace(" ", "▁"))])
        if len(shard) <= MAX_CACHED_CHARACTERS:
            if len(self) >= MAX_CACHED_WORDS:
                self.clear()
            self[shard] = ids
        return ids


class Words(dict[str, tuple[int, ...]]):
    """A cache of the tokens of words. It is four times as fast as tokenizing whole texts."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._shards = Shards(model)

    def __missing__(self, word: str) -> tuple[int, ...]:
        if word.isascii():
            ids = tuple(chain.from_iterable(map(self._shards.__getitem__, SHARD.findall(word))))
        else:
            ids = self._shards[word]
        if len(word) <= MAX_CACHED_CHARACTERS:
            if len(self) >= MAX_CACHED_WORDS:
                self.clear()
            self[word] = ids
        return ids


class Lengths(dict[str, int]):
    """A cache of the number of tokens of words."""

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words

    def __missing__(self, word: str) -> int:
        length = len(self._words[word])
        if len(word) <= MAX_CACHED_CHARACTERS:
            if len(self) >= MAX_CACHED_WORDS:
                self.clear()
            self[word] = length
        return length


class Tokens:
    """Counts and lists the tokens of texts."""

    def __init__(self, model: Model) -> None:
        self._words = Words(model)
        self._lengths = Lengths(self._words)
        # The chunker asks twice in a row for the same text.
        self._last: tuple[str | None, int] = (None, 0)
        # A piece is counted when it is split off, and embedded soon after that.
        self.ids = lru_cache(maxsize=MAX_CACHED_PIECES)(self._ids)

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
    """Load the tokenizer of wordllama once per process, without a download or a thread."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise NotInstalled("tokenizers", "knowledge") from error

    # Use the model alone: texts have no special tokens, and parts may begin without a space.
    return Tokens(Tokenizer.from_file(str(wheel_file(TOKENIZER))).model)
