"""The files of all tenants, in a folder or in a bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from errno import EDQUOT, ENOSPC, EROFS
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from msgspec import Struct
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import LocalStore

from penstock.errors import ConfigError
from penstock.storage import bucket, local
from penstock.storage.errors import (
    FileChanged,
    ObjectDamaged,
    ObjectMissing,
    ObjectTooLarge,
    StorageDown,
    StorageFull,
    StorageRefuses,
)
from penstock.storage.local import Copying
from penstock.storage.location import Options, Store, folder_at, remote_at
from penstock.storage.names import MARKS, digest_of, object_name
from penstock.storage.sink import Sink

if TYPE_CHECKING:
    from obstore import GetResult


SHOWN = 300
# S3 says with the same number that an object is gone and that its bucket never was.
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")


BLOCK = 1024 * 1024

BATCH = 1000
SENT_AT_ONCE = 8
SLOWEST = 256 * 1024  # Bytes a second that a large file has to move by, at least.
# A file is stored before its document is written: what is younger may be on its way there.
GRACE = timedelta(hours=1)


@asynccontextmanager
async def answering(doing: str, seconds: float, name: str | None = None) -> AsyncIterator[None]:
    """Ask the storage for something: `doing` completes "could not …"."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise StorageDown(
            f"The storage is too slow: could not {doing} within {seconds:g} s."
        ) from error
    except FileNotFoundError as error:
        if name is None or any(sign in str(error) for sign in NO_BUCKET):
            raise StorageDown(
                f"Could not {doing}: its bucket or folder is not there ({_said(error)})."
            ) from error
        raise ObjectMissing(name) from error
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise StorageRefuses(
            f"Could not {doing}: the storage refuses our credentials or rights ({_said(error)})."
        ) from error
    except (BaseError, OSError) as error:
        raise _kind(error)(f"Could not {doing}: {_said(error)}.") from error


def number_of(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"


def _kind(error: Exception) -> type[StorageDown]:
    number = getattr(error, "errno", None)
    if number in (ENOSPC, EDQUOT):
        return StorageFull
    return StorageRefuses if number == EROFS else StorageDown


def _said(error: Exception) -> str:
    """The first line; below it obstore shows its own insides. Paths are not for everybody."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = str(error).strip().partition("\n")[0].rstrip(" .:")
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"


class Opened:
    """Gives block after block; `bytes` is known from the start."""

    def __init__(self, result: GetResult, name: str, patience: float) -> None:
        self.name = name
        self.bytes = result.meta["size"]
        self._blocks = result.stream(min_chunk_size=BLOCK)
        self._patience = patience

    def __aiter__(self) -> Opened:
        return self

    async def __anext__(self) -> bytes:
        async with answering(f"read {self.name}", self._patience, self.name):
            block = await anext(self._blocks, None)
        if block is None:
            raise StopAsyncIteration
        return bytes(block)


class Stored(Struct, frozen=True):
    """A file in the storage, as a walk finds it."""

    name: str
    bytes: int
    modified: datetime


class NewFile(Struct, frozen=True):
    """A file that is to be stored, with the size and the SHA-256 of its content."""

    file: Path
    size: int
    digest: bytes


class Storage:
    """Content-addressed: one tenant's file has one name, however often it is stored.

    storage = Storage.of("objects")  # or "s3://bucket/prefix"
    name = await storage.put("acme", path, digest)
    await storage.to_file(name, copy)
    """

    def __init__(self, store: Store, folder: Path | None, patience: float, place: str) -> None:
        self._store = store
        # For who runs this service: it may be a path, or the name of a bucket.
        self.place = place
        # Past the store, which would hand every block from thread to thread.
        self._folder = folder
        self._patience = patience

    @classmethod
    def of(cls, url: str, options: Options | None = None) -> Storage:
        """A folder, `file://`, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/…`."""
        options = options or Options()
        if (folder := folder_at(url)) is None:
            return cls(remote_at(url, options), None, options.patience, url)
        try:
            store = LocalStore(folder, mkdir=True, automatic_cleanup=True)
        except (BaseError, OSError) as error:
            raise ConfigError(
                options.variable, url, "a folder that can be made and written to"
            ) from error
        return cls(store, folder, options.patience, str(folder))

    async def put(self, tenant: str, path: Path, digest: bytes) -> str:
        """Keep a file and return its name. Once this returns it is there, and whole."""
        name = object_name(tenant, digest)
        size = (await asyncio.to_thread(path.stat)).st_size
        async with answering(f"store {path.name} as {name}", self._time_for(size)):
            await self._keep(name, path)
        return name

    async def put_all(self, tenant: str, files: Sequence[NewFile]) -> set[Path]:
        """Keep many files, some at once; those that have changed meanwhile, and are not kept."""
        if self._folder is None:
            return await self._send_all(tenant, files)
        named = [(object_name(tenant, each.digest), each.file) for each in files]
        copying = Copying(self._folder, named)
        time = self._time_for(sum(each.size for each in files))
        async with answering(f"store {number_of(len(files))}", time):
            await copying.run()
        return copying.changed

    async def _send_all(self, tenant: str, files: Sequence[NewFile]) -> set[Path]:
        places = asyncio.Semaphore(SENT_AT_ONCE)
        changed = set[Path]()

        async def send(new: NewFile) -> None:
            try:
                async with places:
                    await self.put(tenant, new.file, new.digest)
            except (FileChanged, FileNotFoundError, PermissionError):
                changed.add(new.file)

        try:
            async with asyncio.TaskGroup() as group:
                for each in files:
                    group.create_task(send(each))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return changed

    async def _keep(self, name: str, path: Path) -> None:
        if isinstance(self._store, LocalStore):
            assert self._folder is not None
            await asyncio.to_thread(local.keep, self._folder, name, path)
        else:
            await bucket.keep(self._store, name, path)

    async def open(self, name: str) -> Opened:
        """A stored file, to be read block by block."""
        async with answering(f"open {name}", self._time_for(0), name):
            result = await obstore.get_async(self._store, name)
        return Opened(result, name, self._patience)

    async def read(self, name: str, most_bytes: int) -> bytes:
        """A stored file as bytes, for those that are small."""
        opened = await self.open(name)
        if opened.bytes > most_bytes:
            raise ObjectTooLarge(name, opened.bytes, most_bytes)
        return b"".join([block async for block in opened])

    async def to_file(self, name: str, path: Path) -> int:
        """Copy a stored file to a path, checked against its name; the bytes that it has."""
        if self._folder is not None:
            return await self._copy(self._folder, name, path)
        opened = await self.open(name)
        sink = Sink(path)
        try:
            async for block in opened:
                await sink.write(block)
            if await sink.finish() != digest_of(name):
                raise ObjectDamaged(name)
        except BaseException:
            await sink.abandon()
            raise
        return sink.bytes

    async def _copy(self, folder: Path, name: str, path: Path) -> int:
        time = self._time_for(local.size_of(folder, name))
        copying = asyncio.create_task(asyncio.to_thread(local.fetch, folder, name, path))
        try:
            async with answering(f"read {name}", time):
                return await asyncio.shield(copying)
        except BaseException:
            # Who is cancelled here does not stop the thread.
            await asyncio.gather(copying, return_exceptions=True)
            await asyncio.to_thread(path.unlink, missing_ok=True)
            raise

    async def delete(self, names: Sequence[str]) -> None:
        """Remove files. Those that are gone already are no error."""
        for start in range(0, len(names), BATCH):
            batch = list(names[start : start + BATCH])
            async with answering(f"delete {number_of(len(batch))}", self._time_for(0)):
                if isinstance(self._store, LocalStore):
                    # At the first that is gone many at once would end, and go on behind our back.
                    await self._delete_one_by_one(batch)
                    continue
                try:
                    await obstore.delete_async(self._store, batch)
                except FileNotFoundError:  # Some stores stop at the first that is gone.
                    await self._delete_one_by_one(batch)

    async def walk(self) -> AsyncIterator[list[Stored]]:
        """All files that are not young, in batches: the documents of those may be under way."""
        before = datetime.now(UTC) - GRACE
        pages = obstore.list(self._store, chunk_size=BATCH)
        while True:
            async with answering("list the files", self._time_for(0)):
                page = await anext(pages, None)
            if page is None:
                return
            found = [Stored(each["path"], each["size"], each["last_modified"]) for each in page]
            if batch := [each for each in found if each.modified < before]:
                yield batch

    async def mark(self, database: str) -> list[str]:
        """Leave a mark that a database stores here; the marks of others that do."""
        own = f"{MARKS}/{sha256(database.encode()).hexdigest()[:32]}"
        async with answering("list the databases that store here", self._time_for(0)):
            found = await obstore.list(self._store, MARKS).collect_async()
        marks = {each["path"] for each in found}
        if own not in marks:
            async with answering(f"write {own}", self._time_for(0)):
                await obstore.put_async(
                    self._store, own, f"{database}\n".encode(), use_multipart=False
                )
        return sorted(marks - {own})

    async def _delete_one_by_one(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                await obstore.delete_async(self._store, name)
            except FileNotFoundError:
                continue

    def _time_for(self, size: int) -> float:
        """One request and its retries, and the time that the bytes take."""
        return 2 * self._patience + size / SLOWEST
