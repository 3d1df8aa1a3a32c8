"""Store and read the files of all tenants, in a folder or in a bucket."""

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
from penstock.storage.local import ParallelCopy
from penstock.storage.location import StorageOptions, Store, folder_at, remote_at
from penstock.storage.names import DATABASES_FOLDER, digest_of, object_name
from penstock.storage.sink import Sink

if TYPE_CHECKING:
    from obstore import GetResult


MAX_REASON_CHARS = 300
# S3 answers with the same status whether an object or its whole bucket does not exist. These texts
# are in the answer if it is the bucket.
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")

BLOCK_BYTES = 1024 * 1024
BATCH_SIZE = 1000
CONCURRENT_UPLOADS = 8
MIN_BYTES_PER_SECOND = 256 * 1024
# A file is stored before its document is written, so a younger file may still get its document.
GRACE_PERIOD = timedelta(hours=1)


@asynccontextmanager
async def translate_errors(
    doing: str, seconds: float, name: str | None = None
) -> AsyncIterator[None]:
    """Raise the storage's errors within the block as `StorageDown` or `ObjectMissing`.

    `doing` completes "could not …" in the messages. The block may take `seconds` seconds. If `name`
    is passed, a missing file raises `ObjectMissing` for this name, otherwise `StorageDown`.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise StorageDown(
            f"The storage is too slow: could not {doing} within {seconds:g} s."
        ) from error
    except FileNotFoundError as error:
        if name is None or any(text in str(error) for text in NO_BUCKET):
            raise StorageDown(
                f"Could not {doing}: the bucket or folder does not exist ({_reason(error)})."
            ) from error
        raise ObjectMissing(name) from error
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise StorageRefuses(
            f"Could not {doing}: the storage refuses our credentials or rights ({_reason(error)})."
        ) from error
    except (BaseError, OSError) as error:
        raise _error_class(error)(f"Could not {doing}: {_reason(error)}.") from error


def number_of(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"


def _error_class(error: Exception) -> type[StorageDown]:
    number = getattr(error, "errno", None)
    if number in (ENOSPC, EDQUOT):
        return StorageFull
    return StorageRefuses if number == EROFS else StorageDown


def _reason(error: Exception) -> str:
    """Return the first line of an error.

    obstore writes details into the lines after it, and they may contain paths.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = str(error).strip().partition("\n")[0].rstrip(" .:")
    return line if len(line) <= MAX_REASON_CHARS else f"{line[: MAX_REASON_CHARS - 1]}…"


class FileReader:
    """Reads a stored file block by block. `bytes` is its size."""

    def __init__(self, result: GetResult, name: str, patience: float) -> None:
        self.name = name
        self.bytes = result.meta["size"]
        self._blocks = result.stream(min_chunk_size=BLOCK_BYTES)
        self._patience = patience

    def __aiter__(self) -> FileReader:
        return self

    async def __anext__(self) -> bytes:
        async with translate_errors(f"read {self.name}", self._patience, self.name):
            block = await anext(self._blocks, None)
        if block is None:
            raise StopAsyncIteration
        return bytes(block)


class StoredFile(Struct, frozen=True):
    """A file in the storage, as `Storage.walk` lists it."""

    name: str
    bytes: int
    modified: datetime


class NewFile(Struct, frozen=True):
    """A file to store, with its size and the SHA-256 of its content."""

    file: Path
    size: int
    digest: bytes


class Storage:
    """Stores files under names that contain the hash of their content.

    storage = Storage.of("objects")  # or "s3://bucket/prefix"
    name = await storage.put("acme", path, digest)
    await storage.to_file(name, copy)

    If a tenant stores the same file again, the name is the same as before.
    """

    def __init__(self, store: Store, folder: Path | None, patience: float, place: str) -> None:
        self._store = store
        # A path or the name of a bucket, for messages to those who run the service.
        self.place = place
        # Files of a folder are read directly. The store would pass every block between threads.
        self._folder = folder
        self._patience = patience

    @classmethod
    def of(cls, url: str, options: StorageOptions | None = None) -> Storage:
        """Open the storage at a URL, and create it if it is a folder.

        The URL is a folder, or `file://…`, `s3://bucket/prefix`, `gs://bucket/prefix` or
        `az://container/prefix`.
        """
        options = options or StorageOptions()
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
        """Store a file, and return its name. The file is complete once this returns."""
        name = object_name(tenant, digest)
        size = (await asyncio.to_thread(path.stat)).st_size
        async with translate_errors(f"store {path.name} as {name}", self._timeout_for(size)):
            await self._store_file(name, path)
        return name

    async def put_all(self, tenant: str, files: Sequence[NewFile]) -> set[Path]:
        """Store many files in parallel.

        Returns the files that were not stored, because they have changed since they were hashed.
        """
        if self._folder is None:
            return await self._upload_all(tenant, files)
        named = [(object_name(tenant, new.digest), new.file) for new in files]
        copy = ParallelCopy(self._folder, named)
        timeout = self._timeout_for(sum(new.size for new in files))
        async with translate_errors(f"store {number_of(len(files))}", timeout):
            await copy.run()
        return copy.changed

    async def _upload_all(self, tenant: str, files: Sequence[NewFile]) -> set[Path]:
        slots = asyncio.Semaphore(CONCURRENT_UPLOADS)
        changed = set[Path]()

        async def upload(new: NewFile) -> None:
            try:
                async with slots:
                    await self.put(tenant, new.file, new.digest)
            except (FileChanged, FileNotFoundError, PermissionError):
                changed.add(new.file)

        try:
            async with asyncio.TaskGroup() as group:
                for new in files:
                    group.create_task(upload(new))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return changed

    async def _store_file(self, name: str, path: Path) -> None:
        if isinstance(self._store, LocalStore):
            assert self._folder is not None
            await asyncio.to_thread(local.store_file, self._folder, name, path)
        else:
            await bucket.store_file(self._store, name, path)

    async def open(self, name: str) -> FileReader:
        """Open a stored file, to read it block by block."""
        async with translate_errors(f"open {name}", self._timeout_for(0), name):
            result = await obstore.get_async(self._store, name)
        return FileReader(result, name, self._patience)

    async def read(self, name: str, most_bytes: int) -> bytes:
        """Return the content of a small file.

        Raises `ObjectTooLarge` if the file has more than `most_bytes` bytes.
        """
        reader = await self.open(name)
        if reader.bytes > most_bytes:
            raise ObjectTooLarge(name, reader.bytes, most_bytes)
        return b"".join([block async for block in reader])

    async def to_file(self, name: str, path: Path) -> int:
        """Copy a stored file to a path, and return its size in bytes.

        Raises `ObjectDamaged` if the content does not match the name.
        """
        if self._folder is not None:
            return await self._copy(self._folder, name, path)
        reader = await self.open(name)
        sink = Sink(path)
        try:
            async for block in reader:
                await sink.write(block)
            if await sink.finish() != digest_of(name):
                raise ObjectDamaged(name)
        except BaseException:
            await sink.abandon()
            raise
        return sink.bytes

    async def _copy(self, folder: Path, name: str, path: Path) -> int:
        timeout = self._timeout_for(local.size_of(folder, name))
        copying = asyncio.create_task(asyncio.to_thread(local.copy_to, folder, name, path))
        try:
            async with translate_errors(f"read {name}", timeout):
                return await asyncio.shield(copying)
        except BaseException:
            # A cancellation does not stop the thread, so wait for it before the file is removed.
            await asyncio.gather(copying, return_exceptions=True)
            await asyncio.to_thread(path.unlink, missing_ok=True)
            raise

    async def delete(self, names: Sequence[str]) -> None:
        """Delete files. Files that do not exist are ignored."""
        for start in range(0, len(names), BATCH_SIZE):
            batch = list(names[start : start + BATCH_SIZE])
            async with translate_errors(f"delete {number_of(len(batch))}", self._timeout_for(0)):
                if isinstance(self._store, LocalStore):
                    # Deleting many at once would raise at the first missing file, and go on in the
                    # background.
                    await self._delete_one_by_one(batch)
                    continue
                try:
                    await obstore.delete_async(self._store, batch)
                except FileNotFoundError:  # Some stores stop at the first missing file.
                    await self._delete_one_by_one(batch)

    async def walk(self) -> AsyncIterator[list[StoredFile]]:
        """Yield all files in batches, except files of the last hour.

        A file is stored before its document is written, so a new file may not have a document yet.
        """
        before = datetime.now(UTC) - GRACE_PERIOD
        pages = obstore.list(self._store, chunk_size=BATCH_SIZE)
        while True:
            async with translate_errors("list the files", self._timeout_for(0)):
                page = await anext(pages, None)
            if page is None:
                return
            files = [StoredFile(meta["path"], meta["size"], meta["last_modified"]) for meta in page]
            if batch := [file for file in files if file.modified < before]:
                yield batch

    async def register_database(self, database: str) -> list[str]:
        """Write a file that records that a database uses this storage.

        Returns the names of the files that other databases have written.
        """
        own = f"{DATABASES_FOLDER}/{sha256(database.encode()).hexdigest()[:32]}"
        async with translate_errors("list the databases that store here", self._timeout_for(0)):
            metas = await obstore.list(self._store, DATABASES_FOLDER).collect_async()
        names = {meta["path"] for meta in metas}
        if own not in names:
            async with translate_errors(f"write {own}", self._timeout_for(0)):
                await obstore.put_async(
                    self._store, own, f"{database}\n".encode(), use_multipart=False
                )
        return sorted(names - {own})

    async def _delete_one_by_one(self, names: Sequence[str]) -> None:
        for name in names:
            try:
                await obstore.delete_async(self._store, name)
            except FileNotFoundError:
                continue

    def _timeout_for(self, size: int) -> float:
        """Return how many seconds a request with this many bytes may take, including one retry."""
        return 2 * self._patience + size / MIN_BYTES_PER_SECOND
