"""Detect the kind of a file and the encoding of a text.

The kind follows from the first bytes, the file's name, and the media type that the sender declares.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from penstock_apps.knowledge.errors import Unreadable

# Longer marks come first, because UTF-32's begins with UTF-16's.
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROLS = bytes(set(range(32)) - set(b"\t\n\x0b\x0c\r\x1b"))
NON_ASCII = re.compile(rb"[\x80-\xff]")

# An encoding is declared in an XML declaration, in a page's head, or in the first lines of source
# code.
DECLARED_ENCODING = re.compile(
    rb"""\A\s*<\?xml\b[^>]{0,200}?\bencoding\s{0,9}=\s{0,9}["']\s{0,9}([\w.:-]{1,40})"""
    rb"""|<meta\b[^>]{0,400}?\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})"""
    rb"""|\A(?:[^\n]{0,400}\n)?[^\n]{0,40}\bcoding[:=]\s{0,9}([\w.-]{1,40})""",
    re.IGNORECASE,
)
DECLARED_ENCODING_BYTES = 8192
DECLARATION_WORDS = re.compile(rb"charset|coding", re.IGNORECASE)

# Texts that declare the encoding on the left may use the one on the right, which contains it.
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
# Python does not know these labels.
LABEL_ALIASES = {
    "iso-8859-8-i": "iso8859-8",
    "ks_c_5601-1987": "cp949",
    "sjis": "cp932",
    "unicode-1-1-utf-8": "utf-8",
    "windows-31j": "cp932",
}
# These codecs of Python are no encodings of documents. Some take time that grows with the square.
NON_TEXT_CODECS = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "mbcs", "oem"}
)
# The bytes of these encodings are all ASCII.
SEVEN_BIT_ENCODINGS = frozenset({"hz", "iso2022_jp_ext", "iso2022_kr", "utf-7"})
ESCAPE_SEQUENCES = (b"\x1b$", b"\x1b(")

# The encodings of the web, of DOS and of the Macintosh.
DETECTABLE = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("cp874", "cp866", "cp850", "cp852", "koi8-r", "koi8-u", "mac-cyrillic", "mac-roman"),
    *("iso8859-2", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8", "iso8859-15"),
    *("cp932", "euc_jis_2004", "gb18030", "big5hkscs", "cp949"),
)
# The most common encoding is the likeliest if it fits nearly as well as the best one. In a short
# text no encoding fits well, and even half as well is enough.
COMMON_ENCODING = "cp1252"
NEARLY_BEST_RATIO = 0.98
WEAK_CONFIDENCE = 0.06
NEARLY_BEST_RATIO_IF_WEAK = 0.5
SAMPLE_BYTES = 64 * 1024
# A declared encoding is doubted if another fits much better, and enough of the text shows it. Many
# servers and programs declare the common encoding for any text.
DOUBT_RATIO = 0.5
CONVINCING_CONFIDENCE = 0.15
DOUBT_RATIO_OF_COMMON = 0.9
# The lowest confidence of an encoding that fits, for texts with at least this many bytes beyond
# ASCII. A text with fewer says little about its encoding, and a wrong one damages little of it.
MIN_CONFIDENCES = ((300, 0.1), (20, 0.05))
# One byte in this many may be damaged.
BYTES_PER_DAMAGED_BYTE = 100

SPACES = "\n\r\t \u3000\u3001\u3002\uff0c"


def decode(data: bytes, *declared: str | None) -> str:
    """Decode a text.

    `declared` lists the encodings that the sender or the text declares, the most trusted first.
    Raises `Unreadable` if the encoding cannot be recognised.
    """
    if encoding := encoding_of_mark(data) or utf16_without_mark(data):
        return data.decode(encoding, "replace")
    names = [name for label in declared if label and (name := codec_name(label))]
    if text := decode_seven_bits(data, names):
        return text
    try:
        return data.decode()
    except UnicodeDecodeError:
        return decode_legacy(data, names)


def decode_seven_bits(data: bytes, names: list[str]) -> str | None:
    """Decode a text whose encoding writes all characters with ASCII bytes, such as UTF-7.

    Return None if no such encoding is declared, or the text does not fit it.
    """
    has_escapes = any(escape in data for escape in ESCAPE_SEQUENCES)
    for name in [*names, *(("iso2022_jp_ext", "iso2022_kr") if has_escapes else ())]:
        if name in SEVEN_BIT_ENCODINGS:
            try:
                return data.decode(name)
            except UnicodeDecodeError:
                continue
    return None


def decode_legacy(data: bytes, declared: list[str]) -> str:
    # UTF-8 with a few broken bytes is still UTF-8. In any other encoding the rest would be garbage.
    text = data.decode("utf-8", "replace")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") * 10 < beyond_ascii:
        return text
    for encoding in likely_encodings(data, declared):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            text = data.decode(encoding, "replace")
            if text.count("\ufffd") * BYTES_PER_DAMAGED_BYTE < len(data) - error.start:
                return text
    raise Unreadable(
        "encoding",
        "The file's text is in an encoding that could not be recognised. Open it in the program "
        "that it was written with, save it as UTF-8 and send that.",
    )


def likely_encodings(data: bytes, declared: list[str]) -> Iterator[str]:
    """Yield the encodings to try, the likeliest first."""
    sample = sample_lines(data)
    confidences = detect_confidences(sample)
    best = max(confidences.values(), default=0.0)
    for name in declared:
        confidence = confidences.get(name, 0.0)
        if name == COMMON_ENCODING:
            is_doubted = confidence < best * DOUBT_RATIO_OF_COMMON and best > WEAK_CONFIDENCE
        else:
            is_doubted = (
                name in DETECTABLE
                and confidence < best * DOUBT_RATIO
                and best >= CONVINCING_CONFIDENCE
            )
        if not is_doubted:
            yield name
    non_ascii = len(NON_ASCII.findall(sample))
    if best < next((lowest for count, lowest in MIN_CONFIDENCES if non_ascii >= count), 0.0):
        return
    ratio = NEARLY_BEST_RATIO if best > WEAK_CONFIDENCE else NEARLY_BEST_RATIO_IF_WEAK
    if confidences.get(COMMON_ENCODING, 0.0) >= best * ratio:
        yield COMMON_ENCODING
    yield from (
        name for name, confidence in confidences.items() if confidence >= best * NEARLY_BEST_RATIO
    )


def detect_confidences(sample: bytes) -> dict[str, float]:
    """Return how well each possible encoding fits the sample, from 0 to 1."""
    # The models are loaded for the few files that need them.
    from chardet import detect_all

    detections = detect_all(
        sample, ignore_threshold=True, include_encodings=DETECTABLE, compat_names=False
    )
    return {
        SUPERSETS.get(name, name): detection["confidence"]
        for detection in detections
        if (name := detection["encoding"]) is not None
    }


def sample_lines(data: bytes) -> bytes:
    """Return the first lines with bytes beyond ASCII.

    Lines of pure ASCII say nothing about the encoding.
    """
    first = NON_ASCII.search(data)
    if first is None:
        return b""
    # The bytes before the first such byte are ASCII, so this cuts no character in two.
    start = max(data.rfind(b"\n", 0, first.start()) + 1, first.start() - 200)
    sample = bytearray()
    while start < len(data) and len(sample) < SAMPLE_BYTES:
        end = data.find(b"\n", start, start + SAMPLE_BYTES) + 1 or start + SAMPLE_BYTES
        line = data[start:end]
        if not line.isascii():
            sample += line
        start = end
    # Without this, the detector would believe what the text declares.
    return DECLARATION_WORDS.sub(b"", bytes(sample[:SAMPLE_BYTES]))


def codec_name(label: str) -> str | None:
    """Return Python's codec for a declared encoding, or None if there is no such codec.

    The result is also None for UTF-8 and UTF-16, because `decode` checks for them by itself.
    """
    label = label.strip().lower().removeprefix("x-")
    label = LABEL_ALIASES.get(label, label).replace("windows-", "cp")
    try:
        name = codecs.lookup(label).name
        # This fails for codecs of other things than text, and for UTF-16, which was checked before.
        b" ".decode(name)
    except (LookupError, ValueError):
        return None
    return (
        None if name in NON_TEXT_CODECS or name.startswith("utf-8") else SUPERSETS.get(name, name)
    )


def declared_encoding(data: bytes) -> str | None:
    """Return the encoding that a page, an XML file or source code declares, or None."""
    declaration = DECLARED_ENCODING.search(data[:DECLARED_ENCODING_BYTES])
    return next(filter(None, declaration.groups())).decode("ascii") if declaration else None


def encoding_of_mark(data: bytes) -> str | None:
    """Return the encoding of the byte order mark that a text begins with, or None."""
    return next((encoding for mark, encoding in BYTE_ORDER_MARKS if data.startswith(mark)), None)


def utf16_without_mark(data: bytes) -> str | None:
    """Return the variant of UTF-16 that a text without a byte order mark has, or None.

    In UTF-16, one of the two bytes of each Latin letter is NUL, and it is always the first or
    always the second. In other scripts the same is true of spaces and line ends.
    """
    sample = data[:2000]
    if b"\x00" not in sample:
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > len(sample) * 0.3 and even < len(sample) * 0.05 and is_readable(sample, "utf-16-le"):
        return "utf-16-le"
    if even > len(sample) * 0.3 and odd < len(sample) * 0.05 and is_readable(sample, "utf-16-be"):
        return "utf-16-be"
    if odd and not even and is_words(sample, "utf-16-le"):
        return "utf-16-le"
    if even and not odd and is_words(sample, "utf-16-be"):
        return "utf-16-be"
    return None


def is_readable(sample: bytes, encoding: str) -> bool:
    """Return whether at most a tenth of the sample's characters are control characters."""
    text = decode_sample(sample, encoding)
    return sum(letter >= " " or letter.isspace() for letter in text) >= len(text) * 0.9


def decode_sample(sample: bytes, encoding: str) -> str:
    return sample[: len(sample) // 2 * 2].decode(encoding, "replace")


def is_words(sample: bytes, encoding: str) -> bool:
    """Return whether the sample consists of words with spaces between them."""
    text = decode_sample(sample, encoding)
    letters = sum(character.isalnum() for character in text)
    spaces = sum(character in SPACES for character in text)
    printable = all(character.isprintable() or character in SPACES for character in text[:-1])
    return bool(spaces) and letters > len(text) * 0.6 and printable


def is_binary(data: bytes) -> bool:
    """Return whether these bytes are not text in any encoding that `decode` can read."""
    if encoding := encoding_of_mark(data):
        return not is_readable(data, encoding)
    if utf16_without_mark(data):
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

# The files in a zip archive show which kind of document it is.
OFFICE_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
# A workbook in a binary format, which is not read.
BINARY_WORKBOOK = "xl/workbook.bin"
MIMETYPES = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
}

CODE_SUFFIXES = """
bash c cc cfg conf cpp cs cxx go h hpp ini java jl js jsx kt lua m pl php ps1 py r rb rs scala sh
sql swift toml ts tsx vb yaml yml zsh
"""
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
} | dict.fromkeys(CODE_SUFFIXES.split(), "code")

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

# The kinds that any text editor can show. A binary file is none of them.
TEXT_KINDS = frozenset(
    {"code", "csv", "email", "html", "json", "jsonl", "markdown", "notebook", "rtf", "text"}
)
# The suffixes of plain text. The sender's media type may still say that it is another kind.
PLAIN_SUFFIXES = frozenset({"log", "rst", "text", "txt"})

# Files for a printer, and text files that are not for people to read.
PRINTER_SIGNATURES = (b"%!PS", b"\x1b%-12345X")
UNREAD_SUFFIXES = frozenset({"css", "lock", "map", "svg"})

HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b", re.I | re.S
)
# The first line of a mail, or of a mailbox.
MAIL_HEADER_START = re.compile(rb"\s*(?:From |[!-9;-~]+:)")


def sniff(path: Path, name: str, media_type: str | None = None) -> str | None:
    """Return the kind of a file, or None if Penstock does not read files of its kind."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    suffix = Path(name).suffix.lower().removeprefix(".")
    named_kind = SUFFIXES.get(suffix)
    kind = kind_by_content(path, head, named_kind)
    return kind or kind_by_name(head, suffix, named_kind, media_type)


def is_named_as_text(name: str) -> bool:
    suffix = Path(name).suffix.lower().removeprefix(".")
    return suffix in PLAIN_SUFFIXES or SUFFIXES.get(suffix) in TEXT_KINDS


def kind_by_content(path: Path, head: bytes, named_kind: str | None) -> str | None:
    """Return the kind of a file by its first bytes, or None if they do not identify it.

    The first bytes are more reliable than the file's name. Only a text may begin with the bytes of
    another kind by chance.
    """
    if b"%PDF-" in head[:1024] and named_kind in (None, "pdf"):
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return kind_in_zip(path)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    for signature, kind in SIGNATURES:
        if head.startswith(signature) and (len(signature) > 2 or is_binary(head)):
            return kind
    return None


def kind_in_zip(path: Path) -> str | None:
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
    kinds = (OFFICE_FOLDERS.get(name[: name.find("/") + 1]) for name in names)
    return next((kind for kind in kinds if kind), None)


def kind_by_name(
    head: bytes, suffix: str, named_kind: str | None, media_type: str | None
) -> str | None:
    if suffix in UNREAD_SUFFIXES or head.startswith(PRINTER_SIGNATURES):
        return None
    if named_kind not in ("code", "email", "markdown") and HTML_START.match(head):
        return "html"
    if named_kind and named_kind not in TEXT_KINDS:
        return named_kind
    declared_kind = MEDIA_TYPES.get((media_type or "").partition(";")[0].strip().lower(), "text")
    kind = named_kind or declared_kind
    # Real mails sometimes contain a NUL.
    is_mail = kind == "email" and MAIL_HEADER_START.match(head)
    return None if is_binary(head.replace(b"\x00", b"") if is_mail else head) else kind
