"""Rich Text Format: its words and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from penstock_apps.knowledge.extract.detect import decode
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

TOKEN = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\(.)|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.I | re.S,
)
# Groups that hold no text of the document.
UNREAD = frozenset(
    {
        "author",
        "colortbl",
        "creatim",
        "datastore",
        "filetbl",
        "fldinst",
        "fonttbl",
        "footer",
        "footerf",
    }
    | {
        "footerl",
        "footerr",
        "generator",
        "header",
        "headerf",
        "headerl",
        "headerr",
        "info",
        "listtable",
    }
    | {"listoverridetable", "pict", "rsidtbl", "stylesheet", "themedata", "xmlnstbl", "object"}
)
# The encodings of fonts, by their number; those of 0 to 2 are the document's.
CHARSETS = {
    77: "mac-roman",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "big5hkscs",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}
# Encodings of documents that have a word of their own, or a number that Python does not know.
DEFAULTS = {"mac": "mac-roman", "pc": "cp437", "pca": "cp850"}
PAGES = {
    936: "gb18030",
    10000: "mac-roman",
    10006: "mac-greek",
    10007: "mac-cyrillic",
    10029: "mac-latin2",
    10081: "mac-turkish",
    1361: "johab",
    20866: "koi8-r",
    21866: "koi8-u",
    65001: "utf-8",
}
WORDS = {
    "par": "\n\n",
    "sect": "\n\n",
    "page": "\n\n",
    "row": "\n",
    "line": "\n",
    "tab": "\t",
    "cell": " | ",
    "emdash": "—",
    "endash": "–",
    "bullet": "•",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
}


ESCAPED = ("\\", "{", "}")


class Reader:
    """Goes through the file once; a group inherits what the one around it said."""

    def __init__(self) -> None:
        # Bytes are text in the document's encoding, which may turn out to be another than it says.
        self.out: list[str | bytes] = []
        self.bytes = bytearray()
        self.groups: list[tuple[bool, int, int | None]] = []
        self.font: int | None = None
        self.default_font: int | None = None
        self.fonts: dict[int | None, str] = {}
        self.unread = False
        self.after_unicode = 1
        self.skip = 0
        self.encoding = "cp1252"

    def text(self, source: str) -> str:
        for token in TOKEN.finditer(source):
            word, number, code, symbol, brace, plain = token.groups()
            # The two bytes of a character may be written in two ways.
            if code:
                self.byte(int(code, 16))
                continue
            if plain or symbol in ESCAPED:
                self.plain(plain or symbol)
                continue
            if not (word or symbol or brace):
                continue
            self.flush()
            if brace:
                self.group(brace)
            elif word:
                self.word(word.lower(), int(number) if number else None)
            elif symbol:
                self.symbol(symbol)
        self.flush()
        return "".join(self.decoded())

    def group(self, brace: str) -> None:
        self.skip = 0
        if brace == "{":
            self.groups.append((self.unread, self.after_unicode, self.font))
        elif self.groups:
            self.unread, self.after_unicode, self.font = self.groups.pop()

    def word(self, word: str, number: int | None) -> None:
        if word in UNREAD:
            self.unread = True
        elif word == "ansicpg" and number:
            self.encoding = PAGES.get(number, f"cp{number}")
        elif word in DEFAULTS:
            self.encoding = DEFAULTS[word]
        elif word == "deff":
            self.font = self.default_font = number
        elif word == "f":
            self.font = number
        elif word == "plain":
            self.font = self.default_font
        elif word == "fcharset" and number in CHARSETS:
            self.fonts[self.font] = CHARSETS[number]
        elif word == "uc" and number is not None:
            self.after_unicode = number
        elif word == "u" and number is not None:
            self.say(chr(number % 65536))
            self.skip = self.after_unicode
        elif word in WORDS:
            self.say(WORDS[word])

    def symbol(self, symbol: str) -> None:
        if symbol == "*":
            self.unread = True
        elif symbol == "~":
            self.say(" ")
        elif symbol == "_":
            self.say("-")

    def plain(self, text: str) -> None:
        # What old programs show instead of a character they do not know.
        skipped = min(self.skip, len(text))
        self.skip -= skipped
        if not self.unread:
            self.bytes += text[skipped:].encode("latin-1")

    def byte(self, code: int) -> None:
        if self.skip:
            self.skip -= 1
        elif not self.unread:
            self.bytes.append(code)

    def flush(self) -> None:
        if self.bytes:
            encoding = self.fonts.get(self.font)
            run = bytes(self.bytes)
            self.out.append(run.decode(encoding, "replace") if encoding else run)
            self.bytes.clear()

    def decoded(self) -> Iterator[str]:
        """The runs of text, those in the document's encoding decoded as one."""
        runs = [part.replace(b"\n", b" ") for part in self.out if isinstance(part, bytes)]
        texts = iter(decode(b"\n".join(runs), self.encoding).split("\n"))
        return (part if isinstance(part, str) else next(texts) for part in self.out)

    def say(self, text: str) -> None:
        if not self.unread:
            self.out.append(text)


def read(path: Path, name: str, limits: Limits) -> Extracted:
    text = Reader().text(path.read_bytes().decode("latin-1"))
    # Characters beyond the first 65,536 are written as two halves.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Extracted((Section(whole),), kind="rtf")
