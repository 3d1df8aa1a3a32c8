"""A document that LlamaParse reads: sent once, looked after without holding a slot, kept."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from zlib import compress, decompress

import msgspec
from msgspec import Struct

from penstock import Context, Exponential, PollTimeout
from penstock.storage.names import belongs_to
from penstock_apps.knowledge.errors import FILE_GONE, Unreadable
from penstock_apps.knowledge.extract.detect import MEDIA_TYPES, SUFFIXES
from penstock_apps.knowledge.parse.errors import NotParsed
from penstock_apps.knowledge.parse.llamaparse import KINDS, LlamaParse
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.documents import Work
from penstock_apps.knowledge.text import Extracted, Section

EVERY = Exponential(base=2, factor=1.5, cap=30)
WITHIN = 3600.0
# What a step keeps has a limit; compressed and as text this stays below it.
SLICE = 750_000


class Slice(Struct, frozen=True):
    """A part of what was read, and how many parts there are."""

    of: int
    data: str


class Parsing:
    """What it was answered is paid for, so it is kept with the job: no attempt asks again."""

    def __init__(self, ctx: Context, runtime: KnowledgeRuntime, work: Work, kind: str) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._work = work
        self._kind = kind
        self._answer: list[str] | None = None

    async def run(self) -> Extracted:
        operation = await self._ctx.step("parse", self._start)
        try:
            await self._ctx.poll("parsed", self._look, operation, every=EVERY, within=WITHIN)
        except PollTimeout:
            raise NotParsed(
                f"LlamaParse has not read the file within {WITHIN / 60:.0f} minutes."
            ) from None
        first = await self._ctx.step("pages", self._slice, operation, 0)
        slices = [first] + [
            await self._ctx.step(f"pages {number}", self._slice, operation, number)
            for number in range(1, first.of)
        ]
        return Extracted(_unpacked(slices), self._kind)

    async def _start(self) -> str:
        name = self._work.object
        if name is None or not belongs_to(name, self._ctx.job.tenant):
            raise Unreadable("broken", FILE_GONE)
        path = self._runtime.folder / f"parse-{self._ctx.job.id}"
        try:
            await self._runtime.storage.to_file(name, path)
            async with self._service() as service:
                return await service.start(path, self._work.path)
        finally:
            path.unlink(missing_ok=True)

    async def _look(self, operation: str) -> str | None:
        async with self._service() as service:
            return await service.look(operation)

    async def _slice(self, operation: str, number: int) -> Slice:
        if self._answer is None:
            async with self._service() as service:
                sections = await service.sections(operation)
            if not any(each.text.strip() for each in sections):
                raise Unreadable("no_text", "LlamaParse has found no text in the file.")
            self._answer = _packed(sections)
        return Slice(len(self._answer), self._answer[number])

    def _service(self) -> LlamaParse:
        return LlamaParse.of(os.environ, self._runtime.settings.parser_url)


def parsed_kind(runtime: KnowledgeRuntime, work: Work) -> str | None:
    """The kind of a document that LlamaParse is to read; None for those that are read here."""
    # A file that is empty or too large costs no call to the service.
    if runtime.settings.parser != "llamaparse" or not 0 < work.size <= runtime.settings.file_bytes:
        return None
    suffix = Path(work.path).suffix.lower().removeprefix(".")
    kind = SUFFIXES.get(suffix) or MEDIA_TYPES.get((work.media_type or "").partition(";")[0])
    return kind if kind in KINDS else None


def _packed(sections: list[Section]) -> list[str]:
    data = b64encode(compress(msgspec.json.encode(sections))).decode()
    return [data[start : start + SLICE] for start in range(0, len(data), SLICE)]


def _unpacked(slices: list[Slice]) -> tuple[Section, ...]:
    data = decompress(b64decode("".join(each.data for each in slices)))
    return msgspec.json.decode(data, type=tuple[Section, ...])
