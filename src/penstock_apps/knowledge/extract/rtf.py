"""Rich Text Format: its words and paragraphs."""

from __future__ import annotations

import re
from pathlib import Path

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


class Reader:
    """Goes through the file once; a group inherits what the one around it said."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.bytes = bytearray()
        self.groups: list[tuple[bool, int]] = []
        self.unread = False
        self.after_unicode = 1
        self.skip = 0
        self.encoding = "cp1252"

    def text(self, source: str) -> str:
        for token in TOKEN.finditer(source):
            word, number, code, symbol, brace, plain = token.groups()
            if code:
                self.byte(int(code, 16))
                continue
            self.flush()
            if brace:
                self.group(brace)
            elif word:
                self.word(word.lower(), int(number) if number else None)
            elif symbol:
                self.symbol(symbol)
            elif plain:
                self.plain(plain)
        self.flush()
        return "".join(self.out)

    def group(self, brace: str) -> None:
        self.skip = 0
        if brace == "{":
            self.groups.append((self.unread, self.after_unicode))
        elif self.groups:
            self.unread, self.after_unicode = self.groups.pop()

    def word(self, word: str, number: int | None) -> None:
        if word in UNREAD:
            self.unread = True
        elif word == "ansicpg" and number:
            self.encoding = f"cp{number}"
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
        elif symbol in "\\{}":
            self.say(symbol)
        elif symbol == "~":
            self.say(" ")
        elif symbol == "_":
            self.say("-")

    def plain(self, text: str) -> None:
        # What old programs show instead of a character they do not know.
        skipped = min(self.skip, len(text))
        self.skip -= skipped
        self.say(text[skipped:])

    def byte(self, code: int) -> None:
        if self.skip:
            self.skip -= 1
        elif not self.unread:
            self.bytes.append(code)

    def flush(self) -> None:
        if self.bytes:
            self.out.append(self.bytes.decode(self.encoding, "replace"))
            self.bytes.clear()

    def say(self, text: str) -> None:
        if not self.unread:
            self.out.append(text)


def read(path: Path, name: str, limits: Limits) -> Extracted:
    text = Reader().text(path.read_bytes().decode("latin-1"))
    # Characters beyond the first 65,536 are written as two halves.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Extracted((Section(whole),), kind="rtf")
