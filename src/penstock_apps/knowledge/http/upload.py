"""One upload: its files go into a source while the rest of them are still on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Final

from penstock.service.problems import Problem
from penstock_apps.knowledge.http.answers import Refused
from penstock_apps.knowledge.http.needing import needing
from penstock_apps.knowledge.http.wishes import files_wish
from penstock_apps.knowledge.intake import Incoming, Intake
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.upload import (
    Field,
    Item,
    Limits,
    Oversized,
    Received,
    UploadRefused,
    receive,
    workspace,
)

# So many files are stored and written down together, or as many as come in so many seconds.
GROUP: Final = 100
GROUP_SECONDS: Final = 1.0
# A client that sends nothing for so long is given up.
SILENCE: Final = 60.0
REFUSED_TOLD: Final = 100
MANY: Final = frozenset({"tags"})


class Upload:
    """Receives a form, and takes in its files group by group. What was taken in stays."""

    def __init__(self, library: Library, given: dict[str, Any]) -> None:
        self._library = library
        self._given = given
        self._own = set[str]()
        self._paths: list[str] | None = []
        self._digests: dict[str, bytes] = {}
        self.intake: Intake | None = None
        self.base: Base | None = None
        self.files = 0
        self.bytes = 0
        self.refused: list[Refused] = []
        self.refused_count = 0

    @property
    def paths(self) -> list[str] | None:
        """Of the files, while they are few."""
        return self._paths

    async def take(self, stream: AsyncIterator[bytes], content_type: str) -> None:
        """All files of a form; raises UploadRefused after those before the fault are in."""
        shop = self._library.shop
        limits = Limits(file_bytes=shop.settings.file_bytes, files=shop.settings.request_files)
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(workspace(shop.folder))
            group: Group | None = None
            refusal: UploadRefused | None = None
            items = receive(_awaited(stream), content_type, here, limits)
            try:
                async with aclosing(items):
                    async for item in items:
                        if isinstance(item, Received) and group is None:
                            group = await stack.enter_async_context(Group(await self._open(stack)))
                        await self._handle(item, group)
            except UploadRefused as error:
                refusal = error
            if group is not None:
                await group.end()
            if refusal is not None:
                raise refusal
            if group is None and not self.refused_count:
                raise Problem(422, "does-not-fit", "There is no file in the form.")

    async def _open(self, stack: AsyncExitStack) -> Intake:
        wish = files_wish(self._given)
        self.base = base = await self._library.make_base(wish.base)
        await stack.enter_async_context(needing(self._library, base))
        intake = self._library.intake(base, wish.target, wish.labels, priority=wish.priority)
        self.intake = await stack.enter_async_context(intake)
        return self.intake

    async def _handle(self, item: Item, group: Group | None) -> None:
        match item:
            case Field():
                self._set(item)
            case Oversized():
                self._refuse(item.name, "too_large", item.message)
            case Received() if item.name in self._digests:
                await self._leave_out(item)
            case Received():
                assert group is not None
                self._count(item)
                await group.add(item)

    async def _leave_out(self, item: Received) -> None:
        """One of two under a name: the first may be stored already, so it is the one that stays."""
        if item.digest != self._digests[item.name]:
            said = (
                f"{item.name} came twice in this request with different content, and the first was "
                "kept. Send paths as file names to keep both."
            )
            self._refuse(item.name, "twice", said)
        await asyncio.to_thread(_remove, [item.path])

    def _refuse(self, path: str, reason: str, error: str) -> None:
        self.refused_count += 1
        if len(self.refused) < REFUSED_TOLD:
            self.refused.append(Refused(path=path, reason=reason, error=error))

    def _count(self, item: Received) -> None:
        self.files += 1
        self.bytes += item.bytes
        self._digests[item.name] = item.digest
        if self._paths is not None:
            self._paths.append(item.name)
            if len(self._paths) > self._library.shop.settings.inline_files:
                self._paths = None

    def _set(self, field: Field) -> None:
        """A field of the form stands for what the address says."""
        if self.intake is not None:
            said = f"The field {field.name!r} stands behind a file. Fields come before files."
            raise Problem(422, "does-not-fit", said, fields=[(field.name, said)])
        if field.name in MANY:
            before = self._given.get(field.name, []) if field.name in self._own else []
            self._given[field.name] = [*before, field.value]
        else:
            self._given[field.name] = field.value
        self._own.add(field.name)


class Group:
    """Files that go in together; while one group does, the next is received."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._files: list[Received] = []
        self._since = 0.0
        self._going: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._going is not None:
            await asyncio.gather(self._going, return_exceptions=True)

    async def add(self, file: Received) -> None:
        if not self._files:
            self._since = time.monotonic()
        self._files.append(file)
        if len(self._files) >= GROUP or time.monotonic() - self._since > GROUP_SECONDS:
            await self._go()

    async def end(self) -> None:
        """What is left goes in, and all have."""
        await self._go()
        await self._gone()

    async def _go(self) -> None:
        await self._gone()
        if self._files:
            files, self._files = self._files, []
            self._going = asyncio.create_task(self._take_in(files), name="penstock upload")

    async def _gone(self) -> None:
        if self._going is not None:
            going, self._going = self._going, None
            await going

    async def _take_in(self, files: list[Received]) -> None:
        await self._intake.add([_incoming(each) for each in files])
        await asyncio.to_thread(_remove, [each.path for each in files])


def _incoming(file: Received) -> Incoming:
    return Incoming(file.name, file.path, file.bytes, file.digest, file.media_type)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


async def _awaited(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The stream, if it does not fall silent."""
    while True:
        async with asyncio.timeout(SILENCE):
            chunk = await anext(stream, None)
        if chunk is None:
            return
        yield chunk
