"""Receive a multipart form file by file while it arrives, without holding all of it in memory."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Literal

from msgspec import Struct
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from penstock import ConfigError, NotRetryable
from penstock.net.media_type import media_type
from penstock.storage.sink import Sink
from penstock_apps.knowledge.errors import KnowledgeError
from penstock_apps.knowledge.file_names import display_name

KB, MB, GB = 1024, 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class FormLimits:
    """The limits of one request. Each is the largest value that is allowed."""

    file_bytes: int = 2 * GB
    files: int = 10_000
    request_bytes: int = 20 * GB
    field_bytes: int = 64 * KB
    fields: int = 1_000
    header_bytes: int = 16 * KB

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise ConfigError(field.name, value, "a whole number, at least 1")


UploadFault = Literal["not_multipart", "broken", "too_large", "too_many", "cut_off", "disk"]


class UploadRefused(KnowledgeError, NotRetryable):
    """The rest of an upload is refused. Files that arrived before stay."""

    def __init__(self, fault: UploadFault, message: str) -> None:
        self.fault = fault
        super().__init__(message)


MAX_HEADERS = 16

Headers = dict[str, str]


class PartEnd:
    """The end of a part."""


FormEvent = Headers | bytes | PartEnd | UploadRefused


class FormParser:
    """Parses chunks of a form into events: the headers of a part, its bytes, its end."""

    def __init__(self, content_type: str, limits: FormLimits) -> None:
        self.complete = False
        self._events: list[FormEvent] = []
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
                max_header_count=MAX_HEADERS,
                max_header_size=limits.header_bytes,
            )
        except FormParserError as error:
            raise _broken(error) from error

    def feed(self, chunk: bytes) -> list[FormEvent]:
        """Return the events of a chunk. A refusal comes last; all events before it are valid."""
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
        # Latin-1 can hold any bytes. They are decoded once it is known what they are.
        self._headers[self._field.decode("latin-1").lower()] = self._value.decode("latin-1")
        self._field.clear()
        self._value.clear()

    def _on_headers(self) -> None:
        self._events.append(self._headers)

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])

    def _on_end(self) -> None:
        self._events.append(PartEnd())

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


IDENTITY_ENCODINGS = ("", "7bit", "8bit", "binary")


def parse_names(headers: Headers) -> tuple[str, str | None]:
    """Return the name of a field, and its file name, which is None if the field is no file."""
    kind, options = parse_options_header(headers.get("content-disposition"))
    field = options.get(b"name")
    if kind != b"form-data" or field is None:
        raise UploadRefused(
            "broken",
            "A part of the form does not say which field it is: it needs "
            '`Content-Disposition: form-data; name="…"`.',
        )
    encoding = headers.get("content-transfer-encoding", "").strip().lower()
    if encoding not in IDENTITY_ENCODINGS:
        raise UploadRefused(
            "broken",
            f"A part of the form is written in {encoding:.40}. Send the bytes as they are.",
        )
    name = options.get(b"filename")
    return _decode_name(field), None if name is None else _decode_name(name)


def parse_media_type(headers: Headers) -> str:
    """Return the declared media type of a file, with its charset unless that is UTF-8."""
    declared, options = parse_options_header(headers.get("content-type"))
    charset = options.get(b"charset", b"")
    return media_type(declared.decode("latin-1"), charset.decode("latin-1"))


def _decode_name(raw: bytes) -> str:
    """Decode a name as browsers write it: UTF-8, with quotes and newlines percent-encoded."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    return text.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


FOLDER_PREFIX = "upload-"


@asynccontextmanager
async def workspace(folder: Path) -> AsyncIterator[Path]:
    """Make a temporary folder inside `folder`, and remove it with its content after the block.

    If the process is killed, the folder is removed with the scratch folder of the process: see
    runtime.py.
    """
    here = Path(await asyncio.to_thread(_make_folder, folder))
    try:
        yield here
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, here, ignore_errors=True))


def _make_folder(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return mkdtemp(prefix=FOLDER_PREFIX, dir=folder)


class FormField(Struct, frozen=True):
    """A field of the form that is no file."""

    name: str
    value: str


class ReceivedFile(Struct, frozen=True):
    """A complete file on local disk. The receiver has to remove it, for example by `with`.

    with received:
        await storage.put(tenant, received.path, received.digest)
    """

    name: str
    field: str
    media_type: str
    path: Path
    digest: bytes
    bytes: int

    def __enter__(self) -> ReceivedFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.path.unlink(missing_ok=True)


class OversizedFile(Struct, frozen=True):
    """A file that exceeds the limit. It was not kept; the other files were."""

    name: str
    field: str
    bytes: int
    allowed: int

    @property
    def message(self) -> str:
        return (
            f"{self.name} has {self.bytes:,} bytes, but a file may have at most {self.allowed:,}. "
            "Split it, or ask whoever runs the service to raise the limit."
        )


class FieldPart:
    """Collects the value of a field in memory, up to a limit."""

    def __init__(self, name: str, max_bytes: int) -> None:
        self._name = name
        self._max_bytes = max_bytes
        self._value = bytearray()

    async def write(self, data: bytes) -> None:
        self._value += data
        if len(self._value) > self._max_bytes:
            raise UploadRefused(
                "too_large",
                f"The field {self._name:.60} has more than {self._max_bytes:,} bytes. "
                "Send long texts as files.",
            )

    async def finish(self) -> FormField:
        return FormField(self._name, self._value.decode(errors="replace"))

    async def abandon(self) -> None:
        self._value.clear()


class FilePart:
    """Writes a file to disk under a random name. A file that becomes too large is not kept."""

    def __init__(
        self, name: str, field: str, media_type: str, folder: Path, max_bytes: int
    ) -> None:
        self._nameless = not name
        self._name = display_name(name)
        self._field = field
        self._media_type = media_type
        self._max_bytes = max_bytes
        self._bytes = 0
        self._sink = Sink(folder / f"{secrets.token_hex(16)}.part")

    async def write(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes <= self._max_bytes:
            await self._sink.write(data)

    async def finish(self) -> ReceivedFile | OversizedFile | None:
        if self._nameless and not self._bytes:
            return None  # A file input of a browser's form that was left empty.
        if self._bytes > self._max_bytes:
            await self._sink.abandon()
            return OversizedFile(self._name, self._field, self._bytes, self._max_bytes)
        digest = await self._sink.finish()
        return ReceivedFile(
            self._name, self._field, self._media_type, self._sink.path, digest, self._bytes
        )

    async def abandon(self) -> None:
        await self._sink.abandon()


FormItem = ReceivedFile | OversizedFile | FormField


class FormReceiver:
    """Turns the events of a form into files and fields, and enforces the limits."""

    def __init__(self, folder: Path, limits: FormLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._part: FilePart | FieldPart | None = None
        self._bytes = 0
        self._files = 0
        self._fields = 0

    def count(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        if self._bytes > self._limits.request_bytes:
            raise UploadRefused(
                "too_large",
                f"An upload may have at most {self._limits.request_bytes:,} bytes. The files that "
                "came before are kept. Send the others in further requests.",
            )

    async def handle(self, event: FormEvent) -> FormItem | None:
        """Handle an event; return the file or field that it completes, if any."""
        match event:
            case dict():
                self._part = self._begin(event)
            case bytes() if self._part is not None:
                await self._part.write(event)
            case PartEnd() if self._part is not None:
                item = await self._part.finish()
                self._part = None
                return item
            case UploadRefused():
                raise event
        return None

    async def abandon(self) -> None:
        """Remove what was written of an incomplete part."""
        if self._part is not None:
            await self._part.abandon()

    def _begin(self, headers: Headers) -> FilePart | FieldPart:
        field, file = parse_names(headers)
        if file is None:
            self._fields += 1
            _check_number("fields", self._fields, self._limits.fields)
            return FieldPart(field, self._limits.field_bytes)
        self._files += 1
        _check_number("files", self._files, self._limits.files)
        return FilePart(
            file, field, parse_media_type(headers), self._folder, self._limits.file_bytes
        )


def _check_number(what: str, number: int, allowed: int) -> None:
    if number > allowed:
        raise UploadRefused(
            "too_many",
            f"An upload may have at most {allowed:,} {what}. Those that came before are kept. "
            "Send the others in further requests.",
        )


async def receive_form(
    stream: AsyncIterator[bytes], content_type: str, folder: Path, limits: FormLimits | None = None
) -> AsyncGenerator[FormItem, None]:
    """Yield each file and field of a multipart form once it is complete, in the form's order.

    A yielded file belongs to the caller, even if the rest of the upload never arrives.

        async with workspace(folder) as here:
            async for item in receive_form(request.stream(), content_type, here):
                if isinstance(item, ReceivedFile):
                    await storage.put(tenant, item.path, item.digest)
    """
    limits = limits or FormLimits()
    parser, form = FormParser(content_type, limits), FormReceiver(folder, limits)
    try:
        while (chunk := await _next_chunk(stream)) is not None:
            form.count(chunk)
            for event in parser.feed(chunk):
                if (item := await form.handle(event)) is not None:
                    yield item
        if not parser.complete:
            raise _cut_off()
    except OSError as error:
        raise UploadRefused(
            "disk",
            f"The server has no room for the upload now ({error.strerror}). Try again later, and "
            "tell whoever runs the server if it fails again.",
        ) from error
    finally:
        await form.abandon()


async def _next_chunk(stream: AsyncIterator[bytes]) -> bytes | None:
    try:
        return await anext(stream, None)
    except Exception as error:  # Each server raises its own error when a client disconnects.
        raise _cut_off() from error


def _cut_off() -> UploadRefused:
    return UploadRefused(
        "cut_off",
        "The upload broke off before its end. The files that arrived whole are kept. Send the "
        "upload again: it recognises them.",
    )
