"""Read text, source code, Markdown, notebooks, JSON and RTF."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract.detect import SUFFIXES, declared_encoding, decode
from penstock_apps.knowledge.extract.extract import too_much_text_error
from penstock_apps.knowledge.extract.limits import ReadLimits
from penstock_apps.knowledge.text import Extracted, Section

# Text is read as it is. Source code becomes a block of code, so that no comment becomes a heading.

FENCE = re.compile("^[ \t]*(`{3,})", re.MULTILINE)


def read_plain(path: Path, name: str, limits: ReadLimits, charset: str | None = None) -> Extracted:
    data = path.read_bytes()
    text = decode(data, charset, declared_encoding(data))
    suffix = Path(name).suffix.lower().removeprefix(".")
    if SUFFIXES.get(suffix) == "code" and text.strip():
        return Extracted((Section(code_block(text, suffix)),), kind="code")
    return Extracted((Section(text),), kind="text")


def code_block(code: str, language: str) -> str:
    """Put code between fences that are longer than any fence within it."""
    longest = max((len(fence) for fence in FENCE.findall(code)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([fence + language, code.strip("\n"), fence])


# Markdown is read as it is, without its front matter.

FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?=[A-Za-z][\w-]*:)(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE
)
FRONT_MATTER_ENTRY = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*)$", re.MULTILINE)
FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
ATX = re.compile(r"^#[ \t]+(\S.*)$", re.MULTILINE)
SETEXT = re.compile(r"^(\S.*)\n=+[ \t]*$", re.MULTILINE)


def read_markdown(
    path: Path, name: str, limits: ReadLimits, charset: str | None = None
) -> Extracted:
    text = decode(path.read_bytes(), charset).replace("\r\n", "\n")
    metadata = {}
    if front := FRONT_MATTER.match(text):
        entries = FRONT_MATTER_ENTRY.findall(front[1])
        metadata = {key.lower(): value.rstrip(" \t").strip("'\"") for key, value in entries}
        text = text[front.end() :]
    title = metadata.pop("title", None) or first_heading(text)
    return Extracted((Section(text),), kind="markdown", title=title, metadata=metadata)


def first_heading(text: str) -> str | None:
    """Return the text's first heading of level 1, or None.

    A comment in a block of code is not taken for a heading.
    """
    prose = FENCED.sub("", text[:50_000])
    heading = ATX.search(prose) or SETEXT.search(prose)
    return heading[1].rstrip(" \t#") if heading else None


# The text of a notebook is read as it is, and its code as blocks.


def read_notebook(path: Path, name: str, limits: ReadLimits) -> Extracted:
    notebook = json.loads(decode(path.read_bytes()))
    language = notebook.get("metadata", {}).get("kernelspec", {}).get("language", "")
    text = "\n\n".join(notebook_cell(cell, language) for cell in notebook["cells"])
    return Extracted((Section(text),), kind="notebook", title=first_heading(text))


def notebook_cell(cell: dict[str, Any], language: str) -> str:
    source = cell.get("source", "")
    text = source if isinstance(source, str) else "".join(source)
    return code_block(text, language) if cell.get("cell_type") == "code" and text.strip() else text


# In JSON each record becomes a paragraph, with a line for each value and its name.

MAX_JSON_DEPTH = 100


def read_json(path: Path, name: str, limits: ReadLimits) -> Extracted:
    text = decode(path.read_bytes())
    kind = SUFFIXES.get(Path(name).suffix.lower().removeprefix("."), "json")
    try:
        values = jsonl_values(text) if kind == "jsonl" else json_values(text)
    except RecursionError:
        raise too_deep_json() from None
    return Extracted((Section("\n\n".join(json_records(values, limits))),), kind=kind)


def json_records(values: list[Any], limits: ReadLimits) -> Iterator[str]:
    """Yield the text of each record.

    A name is repeated on each line, so even a small file may have a very long text. The characters
    are therefore counted on the way. Raises `Unreadable` if there are too many.
    """
    characters = 0
    for value in values:
        lines = []
        for line in json_lines(value, ""):
            lines.append(line)
            characters += len(line)
            if characters > limits.characters:
                raise too_much_text_error(limits)
        yield "\n".join(lines)


def json_values(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        # Many files called .json have one value per line.
        return jsonl_values(text)
    return value if isinstance(value, list) else [value]


def jsonl_values(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def json_lines(value: Any, name: str, depth: int = 0) -> Iterator[str]:
    if depth > MAX_JSON_DEPTH:
        raise too_deep_json()
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from json_lines(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list):
        if all(not isinstance(inner, dict | list) for inner in value):
            yield from json_lines(", ".join(map(json_scalar, value)), name)
        else:
            for inner in value:
                yield from json_lines(inner, name, depth + 1)
    elif value not in (None, ""):
        yield f"{name}: {json_scalar(value)}" if name else json_scalar(value)


def json_scalar(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def too_deep_json() -> Unreadable:
    return Unreadable(
        "broken",
        f"The file's values are nested more than {MAX_JSON_DEPTH} deep. Save them less deeply "
        "nested and send that.",
    )


# The words and paragraphs of Rich Text Format

RTF_TOKEN = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\(.)|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.I | re.S,
)
# Groups that contain no text of the document.
RTF_UNREAD = frozenset(
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
# The encodings of fonts, by their number. Numbers 0 to 2 stand for the document's encoding.
RTF_CHARSETS = {
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
# The encodings of documents, by their control word, or by a number that Python does not know.
RTF_DEFAULTS = {"mac": "mac-roman", "pc": "cp437", "pca": "cp850"}
RTF_PAGES = {
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
RTF_WORDS = {
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


RTF_ESCAPED = ("\\", "{", "}")


class RtfReader:
    """Reads the text of one RTF file. A group inherits the state of the group around it."""

    def __init__(self) -> None:
        # Bytes are text in the document's encoding, which may differ from the declared one.
        self.out: list[str | bytes] = []
        self.bytes = bytearray()
        self.groups: list[tuple[bool, int, int | None]] = []
        self.font: int | None = None
        self.default_font: int | None = None
        self.fonts: dict[int | None, str] = {}
        self.is_unread = False
        self.fallback_length = 1
        self.letters_to_skip = 0
        self.encoding = "cp1252"

    def text(self, source: str) -> str:
        for token in RTF_TOKEN.finditer(source):
            word, number, code, symbol, brace, plain = token.groups()
            # Each byte of a character may be written as a code or as a letter.
            if code:
                self.byte(int(code, 16))
                continue
            if plain or symbol in RTF_ESCAPED:
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
        return "".join(self.decode_runs())

    def group(self, brace: str) -> None:
        self.letters_to_skip = 0
        if brace == "{":
            self.groups.append((self.is_unread, self.fallback_length, self.font))
        elif self.groups:
            self.is_unread, self.fallback_length, self.font = self.groups.pop()

    def word(self, word: str, number: int | None) -> None:
        if word in RTF_UNREAD:
            self.is_unread = True
        elif word == "ansicpg" and number:
            self.encoding = RTF_PAGES.get(number, f"cp{number}")
        elif word in RTF_DEFAULTS:
            self.encoding = RTF_DEFAULTS[word]
        elif word == "deff":
            self.font = self.default_font = number
        elif word == "f":
            self.font = number
        elif word == "plain":
            self.font = self.default_font
        elif word == "fcharset" and number in RTF_CHARSETS:
            self.fonts[self.font] = RTF_CHARSETS[number]
        elif word == "uc" and number is not None:
            self.fallback_length = number
        elif word == "u" and number is not None:
            self.write(chr(number % 65536))
            self.letters_to_skip = self.fallback_length
        elif word in RTF_WORDS:
            self.write(RTF_WORDS[word])

    def symbol(self, symbol: str) -> None:
        if symbol == "*":
            self.is_unread = True
        elif symbol == "~":
            self.write(" ")
        elif symbol == "_":
            self.write("-")

    def plain(self, text: str) -> None:
        # The first letters are for old programs, which show them instead of a Unicode character.
        skipped = min(self.letters_to_skip, len(text))
        self.letters_to_skip -= skipped
        if not self.is_unread:
            self.bytes += text[skipped:].encode("latin-1")

    def byte(self, code: int) -> None:
        if self.letters_to_skip:
            self.letters_to_skip -= 1
        elif not self.is_unread:
            self.bytes.append(code)

    def flush(self) -> None:
        if self.bytes:
            encoding = self.fonts.get(self.font)
            run = bytes(self.bytes)
            self.out.append(run.decode(encoding, "replace") if encoding else run)
            self.bytes.clear()

    def decode_runs(self) -> Iterator[str]:
        """Return the runs of text. Runs in the document's encoding are decoded together.

        The encoding is then detected from all of these runs.
        """
        runs = [part.replace(b"\n", b" ") for part in self.out if isinstance(part, bytes)]
        texts = iter(decode(b"\n".join(runs), self.encoding).split("\n"))
        return (part if isinstance(part, str) else next(texts) for part in self.out)

    def write(self, text: str) -> None:
        if not self.is_unread:
            self.out.append(text)


def read_rtf(path: Path, name: str, limits: ReadLimits) -> Extracted:
    text = RtfReader().text(path.read_bytes().decode("latin-1"))
    # Characters beyond the first 65,536 are written as two halves, which this joins.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return Extracted((Section(joined),), kind="rtf")
