"""The errors that the storage of files raises."""

from __future__ import annotations

from datetime import timedelta

from penstock.errors import NotRetryable, PenstockError, Retryable


class StorageError(PenstockError):
    """The base class of the errors that the storage of files raises."""


class StorageDown(StorageError, Retryable):
    """The storage does not answer, answers too slowly, or refuses access.

    `public` is the message for callers who must not learn where files are stored.
    """

    public = (
        "The storage of files cannot be used now. Try again later. Tell whoever runs this "
        "service if it happens again."
    )

    def __init__(self, message: str, *, after: float | timedelta | None = None) -> None:
        Retryable.__init__(self, message, after=after)


class StorageFull(StorageDown):
    """The storage has no room for another file."""

    public = (
        "The storage of files is full. Tell whoever runs this service, and send the files again "
        "once there is room. Files that were stored already are not stored twice."
    )


class StorageRefuses(StorageDown):
    """The storage is read-only, or refuses the credentials."""

    public = (
        "The storage of files refuses this service: it is read-only, or its rights are not set. "
        "Tell whoever runs this service, and try again once that is fixed."
    )


class ObjectMissing(StorageError, NotRetryable):
    """The file is no longer in the storage."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"The stored file {name} is gone: it was deleted, or its retention has expired. "
            "Upload it again."
        )


class ObjectDamaged(StorageError, NotRetryable):
    """The bytes of a stored file are not those that were stored."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"The content of the stored file {name} has changed since it was stored. "
            "Upload it again, and have the storage checked."
        )


class ObjectTooLarge(StorageError, NotRetryable):
    """A stored file is larger than the limit that its reader has passed."""

    def __init__(self, name: str, size: int, most_bytes: int) -> None:
        self.name = name
        super().__init__(
            f"The stored file {name} has {size:,} bytes, and at most {most_bytes:,} are read."
        )


class FileChanged(StorageError, Retryable):
    """A file changed while it was being stored."""

    def __init__(self, path: object) -> None:
        Retryable.__init__(self, f"The file {path} changed while it was being read. Read it again.")


class LinkRefused(StorageError, NotRetryable):
    """A signed link is not valid, has expired, or is for another HTTP method."""
