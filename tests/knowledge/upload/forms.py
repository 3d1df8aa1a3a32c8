"""Forms as clients write them, in chunks as networks bring them."""

from collections.abc import AsyncIterator, Iterable

import httpx

BOUNDARY = "frontier"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
LAST = f"--{BOUNDARY}--\r\n".encode()


def part(disposition: str, content: bytes, *headers: str) -> bytes:
    head = "\r\n".join([f"--{BOUNDARY}", f"Content-Disposition: {disposition}", *headers])
    return head.encode() + b"\r\n\r\n" + content + b"\r\n"


def file(name: str, content: bytes, *headers: str) -> bytes:
    return part(f'form-data; name="files"; filename="{name}"', content, *headers)


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + LAST


async def chunks(body: bytes | Iterable[bytes], size: int = 65_536) -> AsyncIterator[bytes]:
    for piece in [body] if isinstance(body, bytes) else body:
        for start in range(0, len(piece), size):
            yield piece[start : start + size]


def written_by_httpx(
    files: list[tuple[str, tuple[str, bytes, str]]], data: dict[str, str]
) -> tuple[bytes, str]:
    """A form and its Content-Type, by a client that people use."""
    request = httpx.Request("POST", "http://server/upload", files=files, data=data)
    return request.read(), request.headers["Content-Type"]
