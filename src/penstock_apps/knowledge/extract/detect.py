"""What a file is: by its first bytes, its name and what its sender says; and a text's encoding."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from penstock_apps.knowledge.errors import Unreadable

# The longer marks first: UTF-32's begins with UTF-16's.
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROLS = bytes(set(range(32)) - set(b"\t\n\x0b\x0c\r\x1b"))
HIGH = re.compile(rb"[\x80-\xff]")

# What a text says of itself: an XML declaration, a page's head, the first lines of source code.
DECLARED = re.compile(
    rb"""\A\s*<\?xml\b[^>]{0,200}?\bencoding\s{0,9}=\s{0,9}["']\s{0,9}([\w.:-]{1,40})"""
    rb"""|<meta\b[^>]{0,400}?\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})"""
    rb"""|\A(?:[^\n]{0,400}\n)?[^\n]{0,40}\bcoding[:=]\s{0,9}([\w.-]{1,40})""",
    re.IGNORECASE,
)
DECLARED_BYTES = 8192
DECLARES = re.compile(rb"charset|coding", re.IGNORECASE)

# Whoever declares the left one may have used the right one, which holds all of it and more.
SUPERSETS = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso2022_jp": "iso2022_jp_ext",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
# Labels that Python does not know.
LABELS = {
    "iso-8859-8-i": "iso8859-8",
    "ks_c_5601-1987": "cp949",
    "sjis": "cp932",
    "unicode-1-1-utf-8": "utf-8",
    "windows-31j": "cp932",
}
# Codecs of Python that are no encodings of documents; some take time that grows with the square.
NO_CHARSETS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "mbcs", "oem"}
)
# Encodings whose bytes are all ASCII.
SEVEN_BITS = frozenset({"hz", "iso2022_jp_ext", "iso2022_kr", "utf-7"})
ESCAPES = (b"\x1b$", b"\x1b(")

# What is looked for: the encodings of the web, of DOS and of the Macintosh.
DETECTED = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("cp874", "cp866", "cp850", "cp852", "koi8-r", "koi8-u", "mac-cyrillic", "mac-roman"),
    *("iso8859-2", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8", "iso8859-15"),
    *("cp932", "euc_jis_2004", "gb18030", "big5hkscs", "cp949"),
)
# Where it fits nearly as well as the best one, it is the likeliest; all the more where the text is
# so short that nothing fits much better than the rest.
COMMON = "cp1252"
NEARLY = 0.98
SHORT = 0.06
NEARLY_IF_SHORT = 0.5
SAMPLE_BYTES = 64 * 1024
# A declared encoding is doubted where another fits so much better, and enough of the text shows it.
# Many servers and programs declare the common one without looking.
DOUBTED = 0.5
CONVINCING = 0.15
DOUBTED_COMMON = 0.9
# Below this nothing fits, by how many bytes beyond ASCII there are at least. A text with few of
# them tells little, and loses little.
UNFIT = ((300, 0.1), (20, 0.05))
# A byte in so many may be damaged.
DAMAGED = 100

SPACES = "\n\r\t \u3000\u3001\u3002\uff0c"


def decode(data: bytes, *declared: str | None) -> str:
    """The text of these bytes; `declared` are the encodings that they are said to have, the most
    trusted first. `Unreadable` if it cannot be told.
    """
    if encoding := marked(data) or without_mark(data):
        return data.decode(encoding, "replace")
    names = [name for label in declared if label and (name := known(label))]
    if text := seven_bits(data, names):
        return text
    try:
        return data.decode()
    except UnicodeDecodeError:
        return legacy(data, names)


def seven_bits(data: bytes, names: list[str]) -> str | None:
    """A text that is written with ASCII alone and means something else by it."""
    escaped = any(escape in data for escape in ESCAPES)
    for name in [*names, *(("iso2022_jp_ext", "iso2022_kr") if escaped else ())]:
        if name in SEVEN_BITS:
            try:
                return data.decode(name)
            except UnicodeDecodeError:
                continue
    return None


def legacy(data: bytes, declared: list[str]) -> str:
    # A file of UTF-8 with a few broken bytes is still UTF-8: the rest must not become gibberish.
    mended = data.decode("utf-8", "replace")
    wide = len(mended) - len(mended.encode("ascii", "ignore"))
    if mended.count("\ufffd") * 10 < wide:
        return mended
    for encoding in fitting(data, declared):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            text = data.decode(encoding, "replace")
            if text.count("\ufffd") * DAMAGED < len(data) - error.start:
                return text
    raise Unreadable(
        "encoding",
        "The file's text is in an encoding that could not be recognised. Open it in the program "
        "that it was written with, save it as UTF-8 and send that.",
    )


def fitting(data: bytes, declared: list[str]) -> Iterator[str]:
    """The encodings to try, the likeliest first."""
    sample = sampled(data)
    fits = detected(sample)
    best = max(fits.values(), default=0.0)
    for name in declared:
        fit = fits.get(name, 0.0)
        if name == COMMON:
            doubted = fit < best * DOUBTED_COMMON and best > SHORT
        else:
            doubted = name in DETECTED and fit < best * DOUBTED and best >= CONVINCING
        if not doubted:
            yield name
    high = len(HIGH.findall(sample))
    if best < next((unfit for least, unfit in UNFIT if high >= least), 0.0):
        return
    if fits.get(COMMON, 0.0) >= best * (NEARLY if best > SHORT else NEARLY_IF_SHORT):
        yield COMMON
    yield from (name for name, fit in fits.items() if fit >= best * NEARLY)


def detected(sample: bytes) -> dict[str, float]:
    """How well each encoding fits that can be the one of the sample, from 0 to 1."""
    # Its models are loaded for the few files that need them.
    from chardet import detect_all

    found = detect_all(
        sample, ignore_threshold=True, include_encodings=DETECTED, compat_names=False
    )
    return {
        SUPERSETS.get(name, name): each["confidence"]
        for each in found
        if (name := each["encoding"]) is not None
    }


def sampled(data: bytes) -> bytes:
    """The first lines that have more than ASCII in them: markup and numbers tell nothing."""
    first = HIGH.search(data)
    if first is None:
        return b""
    # What stands before the first such byte is ASCII, so that no character is cut in two.
    start = max(data.rfind(b"\n", 0, first.start()) + 1, first.start() - 200)
    sample = bytearray()
    while start < len(data) and len(sample) < SAMPLE_BYTES:
        end = data.find(b"\n", start, start + SAMPLE_BYTES) + 1 or start + SAMPLE_BYTES
        line = data[start:end]
        if not line.isascii():
            sample += line
        start = end
    # Else a detector would believe what the text says of itself.
    return DECLARES.sub(b"", bytes(sample[:SAMPLE_BYTES]))


def known(label: str) -> str | None:
    """The name of a codec that reads what is declared so."""
    label = label.strip().lower().removeprefix("x-")
    label = LABELS.get(label, label).replace("windows-", "cp")
    try:
        name = codecs.lookup(label).name
        b" ".decode(name)  # there are codecs of other things than text, and UTF-16 was looked for
    except (LookupError, ValueError):
        return None
    return None if name in NO_CHARSETS or name.startswith("utf-8") else SUPERSETS.get(name, name)


def declared_in(data: bytes) -> str | None:
    """The encoding that a page, an XML file or source code names itself."""
    found = DECLARED.search(data[:DECLARED_BYTES])
    return next(filter(None, found.groups())).decode("ascii") if found else None


def marked(data: bytes) -> str | None:
    return next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)


def without_mark(data: bytes) -> str | None:
    """UTF-16 has a NUL beside each letter of Latin text, always on the same side.

    Other scripts have one beside each space and the end of each line.
    """
    sample = data[:2000]
    if b"\x00" not in sample:
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > len(sample) * 0.3 and even < len(sample) * 0.05 and shown(sample, "utf-16-le"):
        return "utf-16-le"
    if even > len(sample) * 0.3 and odd < len(sample) * 0.05 and shown(sample, "utf-16-be"):
        return "utf-16-be"
    if odd and not even and spaced(sample, "utf-16-le"):
        return "utf-16-le"
    if even and not odd and spaced(sample, "utf-16-be"):
        return "utf-16-be"
    return None


def shown(sample: bytes, encoding: str) -> bool:
    """Whether most of this is for people to read, and no control characters."""
    text = characters(sample, encoding)
    return sum(each >= " " or each.isspace() for each in text) >= len(text) * 0.9


def characters(sample: bytes, encoding: str) -> str:
    return sample[: len(sample) // 2 * 2].decode(encoding, "replace")


def spaced(sample: bytes, encoding: str) -> bool:
    """Whether this reads as words with spaces between them."""
    text = characters(sample, encoding)
    letters = sum(character.isalnum() for character in text)
    spaces = sum(character in SPACES for character in text)
    printable = all(character.isprintable() or character in SPACES for character in text[:-1])
    return bool(spaces) and letters > len(text) * 0.6 and printable


def binary(data: bytes) -> bool:
    """Whether these bytes are no text in any encoding that is read here."""
    if encoding := marked(data):
        return not shown(data, encoding)
    if without_mark(data):
        return False
    controls = len(data) - len(data.translate(None, CONTROLS))
    only_escapes = b"\x1b" in data and not data.replace(b"\x1b", b"").strip()
    return b"\x00" in data or only_escapes or controls > len(data) * 0.02


HEAD_BYTES = 4096

SIGNATURES = (
    (b"{\\rtf", "rtf"),
    (b"\x1f\x8b", "gzip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"BM", "image"),
)

# What is in a zip tells which document it is.
FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
# A workbook that is no XML.
BINARY_WORKBOOK = "xl/workbook.bin"
MIMETYPES = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
}

CODE = """bash c cc cfg conf cpp cs cxx go h hpp ini java jl js jsx kt lua m pl php ps1 py r rb
rs scala sh sql swift toml ts tsx vb yaml yml zsh"""
SUFFIXES = {
    "csv": "csv",
    "docm": "docx",
    "docx": "docx",
    "eml": "email",
    "epub": "epub",
    "htm": "html",
    "html": "html",
    "ipynb": "notebook",
    "json": "json",
    "jsonl": "jsonl",
    "markdown": "markdown",
    "md": "markdown",
    "mht": "email",
    "mhtml": "email",
    "mdx": "markdown",
    "ndjson": "jsonl",
    "odp": "odp",
    "ods": "ods",
    "odt": "odt",
    "pdf": "pdf",
    "pptm": "pptx",
    "pptx": "pptx",
    "rtf": "rtf",
    "tab": "csv",
    "tsv": "csv",
    "xhtml": "html",
    "xlsm": "xlsx",
    "xlsx": "xlsx",
} | dict.fromkeys(CODE.split(), "code")

MEDIA_TYPES = {
    "application/json": "json",
    "application/pdf": "pdf",
    "application/x-ndjson": "jsonl",
    "application/xhtml+xml": "html",
    "message/rfc822": "email",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/tab-separated-values": "csv",
}

# Kinds that any text editor shows: what is no text is none of them.
TEXTS = frozenset(
    {"code", "csv", "email", "html", "json", "jsonl", "markdown", "notebook", "rtf", "text"}
)
# Names of plain text, which what the sender says may still make more of.
PLAIN = frozenset({"log", "rst", "text", "txt"})

# Text to a machine, nothing to a reader; so is PostScript, whatever its name.
PRINTED = (b"%!PS", b"\x1b%-12345X")
NO_PROSE = frozenset({"css", "lock", "map", "svg"})

HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b", re.I | re.S
)
# The first line of a mail, maybe one of a mailbox.
HEADER = re.compile(rb"\s*(?:From |[!-9;-~]+:)")


def sniff(path: Path, name: str, media_type: str | None = None) -> str | None:
    """The kind of a file, or None for one that is not read here."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    suffix = Path(name).suffix.lower().removeprefix(".")
    named = SUFFIXES.get(suffix)
    return by_content(path, head, named) or by_name(head, suffix, named, media_type)


def named_as_text(name: str) -> bool:
    suffix = Path(name).suffix.lower().removeprefix(".")
    return suffix in PLAIN or SUFFIXES.get(suffix) in TEXTS


def by_content(path: Path, head: bytes, named: str | None) -> str | None:
    """Bytes do not lie, names do; but a text may begin with anything."""
    if b"%PDF-" in head[:1024] and named in (None, "pdf"):
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return inside_zip(path)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    for signature, kind in SIGNATURES:
        if head.startswith(signature) and (len(signature) > 2 or binary(head)):
            return kind
    return None


def inside_zip(path: Path) -> str | None:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
            if "mimetype" in names:
                with archive.open("mimetype") as file:
                    return MIMETYPES.get(file.read(100).strip().removesuffix(b"-template"))
    except (BadZipFile, OSError, NotImplementedError, RuntimeError, ValueError):
        return None
    if BINARY_WORKBOOK in names:
        return None
    found = (FOLDERS.get(name[: name.find("/") + 1]) for name in names)
    return next((kind for kind in found if kind), None)


def by_name(head: bytes, suffix: str, named: str | None, media_type: str | None) -> str | None:
    if suffix in NO_PROSE or head.startswith(PRINTED):
        return None
    if named not in ("code", "email", "markdown") and HTML.match(head):
        return "html"
    if named and named not in TEXTS:
        return named
    said = MEDIA_TYPES.get((media_type or "").partition(";")[0].strip().lower(), "text")
    kind = named or said
    # Real mails have a NUL here and there.
    is_mail = kind == "email" and HEADER.match(head)
    return None if binary(head.replace(b"\x00", b"") if is_mail else head) else kind
