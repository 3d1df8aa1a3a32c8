"""What came of an ingest."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from penstock.wording import counted

SHOWN = 20


class Trouble(Struct, frozen=True):
    """A file that did not go in, and why."""

    path: str
    reason: str


class Renamed(Struct, frozen=True):
    """A folder that has another name now: its source, what that has, what removes it."""

    source: str
    folder: str
    documents: int
    remedy: str

    def __str__(self) -> str:
        what = counted(self.documents, "document")
        are = "is" if self.documents == 1 else "are"
        return (
            f"{self.folder} is not there any more, and its files are in this folder now. {what} "
            f"from there {are} still searched: `{self.remedy}` removes what came from there."
        )


class Summary(Struct, frozen=True, kw_only=True):
    """How many files went in, and what that took."""

    batch: str | None
    total: int
    completed: int
    failed: int
    skipped: int
    unchanged: int
    chunks: int
    embedded: int
    seconds: float
    errors: tuple[Trouble, ...]
    pending: int = 0
    # Documents without a file: those that stay, and those that were deleted, if that was wanted.
    gone: int = 0
    removed: int | None = None
    # Links that lead out of their folders.
    leading_out: int = 0
    renamed: tuple[Renamed, ...] = ()
    noun: str = "file"
    skips: tuple[Trouble, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """As programs read it."""
        more: dict[str, Any] = {
            "pending": self.pending or None,
            "gone": self.gone or None,
            "removed": self.removed,
            "leading_out": self.leading_out or None,
            "renamed": self.renamed or None,
        }
        return {
            "batch": self.batch,
            "total": self.total,
            "completed": self.completed,
            "failed": self.failed,
            "skipped": self.skipped,
            "unchanged": self.unchanged,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "seconds": self.seconds,
            "errors": self.errors,
        } | {name: value for name, value in more.items() if value is not None}

    def __str__(self) -> str:
        counts = {
            "went in": self.completed,
            "unchanged": self.unchanged,
            "skipped": self.skipped,
            "failed": self.failed,
            "removed": self.removed,
            "still to come": self.pending,
        }
        told = ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)
        files = counted(self.total, self.noun) if self.total else f"No {self.noun}s"
        lines = [f"{files}: {told or 'nothing to do'}."]
        if self.completed:
            lines.append(
                f"{counted(self.chunks, 'chunk')}, {self.embedded:,} of them new to the model, "
                f"in {self.seconds:.1f} s."
            )
        if self.gone:
            those = "document has" if self.gone == 1 else "documents have"
            lines.append(f"{self.gone:,} {those} no file any more: --prune deletes such documents.")
        lines += map(str, self.renamed)
        if self.leading_out:
            those = "link leads" if self.leading_out == 1 else "links lead"
            lines.append(
                f"{self.leading_out:,} {those} out of the folder: --follow-links takes that in."
            )
        for title, some in (("Failed", self.errors), ("Skipped now", self.skips)):
            if some:
                lines += [
                    "",
                    f"{title}:",
                    *(f"  {each.path}: {each.reason}" for each in some[:SHOWN]),
                ]
            if len(some) > SHOWN:
                lines.append(f"  … and {len(some) - SHOWN:,} more.")
        if self.pending:
            lines.append("A worker brings the rest in: `penstock up`, or the same command again.")
        return "\n".join(lines)
