"""Every wait for the storage ends, and what it says becomes one of our errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import EDQUOT, ENOSPC, EROFS

from obstore.exceptions import (
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from penstock_apps.knowledge.storage.errors import (
    ObjectMissing,
    StorageDown,
    StorageFull,
    StorageRefuses,
)

SHOWN = 300
# S3 says with the same number that an object is gone and that its bucket never was.
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")


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
