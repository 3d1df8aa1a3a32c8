"""An upload as it arrives: file by file, never whole in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

from penstock_apps.knowledge.upload.form import Form, Item, Limits, Parts, UploadRefused


async def receive(
    stream: AsyncIterator[bytes], content_type: str, folder: Path, limits: Limits | None = None
) -> AsyncGenerator[Item, None]:
    """Give each file and field of a multipart form once it is there, in the order of the form.

    A file that is given belongs to the caller, also when the rest of the upload never comes.

        async with workspace(folder) as here:
            async for item in receive(request.stream(), content_type, here):
                if isinstance(item, Received):
                    await storage.put(tenant, item.path, item.digest)
    """
    limits = limits or Limits()
    parts, form = Parts(content_type, limits), Form(folder, limits)
    try:
        while (chunk := await _next(stream)) is not None:
            form.count(chunk)
            for event in parts.take(chunk):
                if (item := await form.handle(event)) is not None:
                    yield item
        if not parts.complete:
            raise _cut_off()
    except OSError as error:
        raise UploadRefused(
            "disk",
            f"The server has no room for the upload now ({error.strerror}). Try it later, and tell "
            "who runs it if it stays so.",
        ) from error
    finally:
        await form.abandon()


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    try:
        return await anext(stream, None)
    except Exception as error:  # Each server has its own word for a client that is gone.
        raise _cut_off() from error


def _cut_off() -> UploadRefused:
    return UploadRefused(
        "cut_off",
        "The upload broke off before its end. The files that arrived whole are kept: "
        "send it again, and they are known.",
    )
