"""From bytes as they arrive to the parts of a form."""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from penstock_apps.knowledge.upload.errors import UploadRefused
from penstock_apps.knowledge.upload.limits import Limits

MOST_HEADERS = 16

Headers = dict[str, str]


class Ended:
    """A part is over."""


Event = Headers | bytes | Ended | UploadRefused


class Parts:
    """Takes chunks, gives what they hold: the headers of a part, its bytes, its end."""

    def __init__(self, content_type: str, limits: Limits) -> None:
        self.complete = False
        self._events: list[Event] = []
        self._headers: Headers = {}
        self._field = bytearray()
        self._value = bytearray()
        try:
            self._parser = MultipartParser(
                _boundary(content_type),
                {
                    "on_part_begin": self._headers_begin,
                    "on_header_field": self._on_field,
                    "on_header_value": self._on_value,
                    "on_header_end": self._on_header,
                    "on_headers_finished": self._on_headers,
                    "on_part_data": self._on_data,
                    "on_part_end": self._on_end,
                    "on_end": self._on_last,
                },
                max_header_count=MOST_HEADERS,
                max_header_size=limits.header_bytes,
            )
        except FormParserError as error:
            raise _broken(error) from error

    def take(self, chunk: bytes) -> list[Event]:
        """What this chunk holds. A refusal comes last: what stands before it arrived whole."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            self._events.append(_broken(error))
        events, self._events = self._events, []
        return events

    def _headers_begin(self) -> None:
        self._headers = {}

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header(self) -> None:
        # Latin-1 takes any bytes and gives them back; what they mean is known later.
        self._headers[self._field.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._field.clear()
        self._value.clear()

    def _on_headers(self) -> None:
        self._events.append(self._headers)

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])

    def _on_end(self) -> None:
        self._events.append(Ended())

    def _on_last(self) -> None:
        self.complete = True


def _boundary(content_type: str) -> bytes:
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise UploadRefused(
            "not_multipart",
            f"Files are uploaded as multipart/form-data, not as {content_type[:100]!r}.",
        )
    if not (boundary := options.get(b"boundary")):
        raise UploadRefused(
            "broken",
            "The Content-Type has no boundary, so nobody can tell where a file ends. "
            "Let the HTTP client set this header itself.",
        )
    return boundary


def _broken(error: FormParserError) -> UploadRefused:
    if "header" in str(error) and "Maximum" in str(error):
        return UploadRefused(
            "too_large",
            "The headers of a file are too long. Give it a shorter name and fewer headers.",
        )
    return UploadRefused(
        "broken",
        f"The form is not written as multipart/form-data should be ({error}). "
        "Use the multipart support of an HTTP client, and let it set the Content-Type.",
    )
