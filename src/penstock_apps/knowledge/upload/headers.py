"""What the headers of a part say of it."""

from __future__ import annotations

from python_multipart.multipart import parse_options_header

from penstock_apps.knowledge.media_type import media_type
from penstock_apps.knowledge.upload.errors import UploadRefused
from penstock_apps.knowledge.upload.parts import Headers

AS_IT_IS = ("", "7bit", "8bit", "binary")


def names_of(headers: Headers) -> tuple[str, str | None]:
    """The name of the form's field, and that of the file if it is one."""
    kind, options = parse_options_header(headers.get("content-disposition"))
    field = options.get(b"name")
    if kind != b"form-data" or field is None:
        raise UploadRefused(
            "broken",
            "A part of the form does not say which field it is: it needs "
            '`Content-Disposition: form-data; name="…"`.',
        )
    encoding = headers.get("content-transfer-encoding", "").strip().lower()
    if encoding not in AS_IT_IS:
        raise UploadRefused(
            "broken",
            f"A part of the form is written in {encoding:.40}. Send the bytes as they are.",
        )
    name = options.get(b"filename")
    return _text(field), None if name is None else _text(name)


def media_type_of(headers: Headers) -> str:
    """What a file is said to be, with its encoding if that is declared and not UTF-8."""
    said, options = parse_options_header(headers.get("content-type"))
    charset = options.get(b"charset", b"")
    return media_type(said.decode("latin-1"), charset.decode("latin-1"))


def _text(raw: bytes) -> str:
    """Browsers write UTF-8, and hide quotes and ends of lines behind percent signs."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
