"""The errors of knowledge. Their messages name cause and remedy for the owner of a document."""

from __future__ import annotations

from typing import Final, Literal

from penstock import NotRetryable, PenstockError
from penstock.sql import quote

Unfit = Literal[
    "encrypted",
    "broken",
    "encoding",
    "empty",
    "no_text",
    "too_large",
    "too_many_pages",
    "inflates",
    "unsupported",
]

FILE_GONE: Final = "Its file is not stored any more: upload it again."


class KnowledgeError(PenstockError):
    """The base class of all errors of this application."""


class Unreadable(KnowledgeError, NotRetryable):
    """A file from which no text can be read, so that retries are useless."""

    def __init__(self, reason: Unfit, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class Skipped(Unreadable):
    """A file that is not read because of its kind, or because it is empty. This is no failure."""


class VectorMissing(KnowledgeError):
    """The database has no pgvector, and the extension could not be created."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Vectors need the extension pgvector 0.8 or newer: {reason.rstrip('.')}. Install it "
            "on the database server (Debian: postgresql-15-pgvector), then let an administrator "
            "run CREATE EXTENSION vector; in this database."
        )


class TablesMissing(KnowledgeError):
    """The database has no tables of knowledge, or those of an older version."""

    def __init__(self, schema: str, are_old: bool, left: str | None = None) -> None:
        what = "old tables" if are_old else "no tables"
        message = (
            f"The schema {schema} has {what} of knowledge: `penstock migrate --with knowledge` "
            "brings them up to date."
        )
        if left is not None and not are_old:
            message += (
                f" If the queue's schema was renamed, rename that of its knowledge instead: "
                f"`ALTER SCHEMA {quote(left)} RENAME TO {quote(schema)}`, then `penstock migrate`."
            )
        super().__init__(message)


class TablesRenamed(KnowledgeError):
    """The schema of knowledge was renamed, but its functions still use the former name."""

    def __init__(self, schema: str, former: str) -> None:
        super().__init__(
            f"The schema {schema} was renamed: the functions of knowledge still look for their "
            f"tables in {former}. `penstock migrate` mends them."
        )


class NotFound(KnowledgeError):
    """A base, source or document does not exist, or belongs to another tenant."""

    def __init__(self, what: str, which: str) -> None:
        self.what = what
        self.which = which
        super().__init__(f"There is no {what} {which!r}.")


class BaseDeleted(NotFound):
    """A base that was deleted while documents were being added to it."""

    def __init__(self, name: str) -> None:
        self.what = "knowledge base"
        self.which = name
        KnowledgeError.__init__(
            self,
            f"The knowledge base {name!r} was deleted meanwhile, with the documents that were "
            "added to it. Send them again to make a new one.",
        )


class BaseBroken(NotFound):
    """A base that has lost its editions, so that it can neither be searched nor filled."""

    def __init__(self, id: int, name: str) -> None:
        self.what = "knowledge base"
        self.which = self.name = name
        self.id = id
        KnowledgeError.__init__(
            self,
            f"The knowledge base {name!r} (id {id}) has lost its editions, so nothing is found in "
            "it. Delete it, make it again, and send its documents again.",
        )


class QuotaExceeded(KnowledgeError):
    """A request that would exceed a quota of the tenant."""

    def __init__(self, what: str, allowed: int, wanted: int) -> None:
        self.what = what
        self.allowed = allowed
        super().__init__(
            f"That would make {wanted:,} {what}, but only {allowed:,} are allowed. Delete some, "
            "or let an administrator raise the quota."
        )


class OverQuota(KnowledgeError, NotRetryable):
    """A document whose chunks or tokens would exceed a quota of the tenant."""

    reason = "quota"

    def __init__(self, chunks: int, tokens: int) -> None:
        super().__init__(
            f"Its {chunks:,} chunks and {tokens:,} tokens would exceed the quota of the tenant. "
            "Delete some documents, or let an administrator raise the quota."
        )


class AttachmentsOverQuota(OverQuota):
    """A mail whose attachments would exceed a quota of the tenant."""

    def __init__(self, reason: str) -> None:
        KnowledgeError.__init__(self, f"Its attachments cannot be added. {reason}")


class TenantInactive(KnowledgeError):
    """The tenant is switched off, or is being deleted."""

    def __init__(self, tenant: str) -> None:
        super().__init__(f"The tenant {tenant!r} is not active: nothing is taken in for it.")


class ObjectsGone(KnowledgeError):
    """Files took so long to store that a sweep removed them, since no document used them."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"{number} of the files took more than an hour to store, so a sweep removed them. "
            "Upload them again, fewer at a time."
        )
