"""What became of functions since the schema was kept: the only differences that its guards allow.

The kept texts are from before. They are compared as if they had been kept with these changes: a new
version took the first one's name, older versions went, and what wrapped its older version holds it.
Whoever keeps the schema anew empties these tables, and the text of the merged functions.
"""

import re
from collections.abc import Callable
from pathlib import Path

RENAMED = {
    "announce_v2": "announce_v1",
    "claim_v3": "claim_v1",
    "close_lease_v2": "close_lease_v1",
    "delete_v3": "delete_v1",
    "enqueue_v3": "enqueue_v1",
    "ensure_partitions_v2": "ensure_partitions_v1",
    "finish_v2": "finish_v1",
    "put_back_v2": "put_back_v1",
    "retry_v2": "retry_v1",
    "scan_lines_v2": "scan_lines_v1",
    "settle_unlocked_v2": "settle_unlocked_v1",
    "settle_v2": "settle_v1",
    "sweep_v3": "sweep_v1",
}
REMOVED = frozenset(
    {
        *("announce_v1", "claim_v1", "claim_v2", "close_lease_v1", "delete_v1", "delete_v2"),
        *("enqueue_v1", "enqueue_v2", "ensure_partitions_v1", "finish_v1", "put_back_v1"),
        *("retry_v1", "scan_lines_v1", "settle_unlocked_v1", "settle_v1", "sweep_v1", "sweep_v2"),
    }
)
# They are compared with a text of their own, in `kept/engine_merged.sql`.
MERGED = frozenset({"close_lease_v2", "ensure_partitions_v2", "put_back_v2"})
KNOWLEDGE_RENAMED = {"search_place": "search_place_v1"}
# Types in signatures that users do not name themselves.
TYPES = {"Link": "Connector", "Portal": "BlockingPortal"}
# Lines of what routes ask: all lists of jobs name the table of jobs by the same letter.
ASKED = {
    "SELECT h.id, h.task, h.state, h.queue, h.lane, h.reason, h.priority, h.tenant, h.subject, ": (
        "SELECT a.id, a.task, a.state, a.queue, a.lane, a.reason, a.priority, a.tenant, a.subject, "
    ),
}

_PART = re.compile(r"(?m)^(?=== )")
# In a list of differences three signs come before: what is new, what is gone, or neither.
_ENTRY = {
    "== functions": re.compile(r"(?m)^(?=(?:[-+ ] )?CREATE OR REPLACE FUNCTION )"),
    "== rights to functions": re.compile(r"(?m)^(?=.)"),
}
_SIGN = re.compile(r"^[-+ ] ")
_FUNCTION = re.compile(r"^(?:CREATE OR REPLACE FUNCTION )?\w+\.(\w+)\(")
_NAME = re.compile(r"\b[a-z_]+_v\d+\b")


def merged() -> dict[str, str]:
    """The text of each function that was merged with its older version, by its first line."""
    text = (Path(__file__).parent / "kept" / "engine_merged.sql").read_text("utf-8")
    return {_head(entry): entry for entry in _ENTRY["== functions"].split(text) if entry}


def renamed(kept: str) -> str:
    """A kept text with the functions by their names of today."""
    return _NAME.sub(lambda found: RENAMED.get(found[0], found[0]), kept)


def names_of_today(kept: str) -> str:
    """The kept names and signatures with the types of today."""
    for before, now in TYPES.items():
        kept = re.sub(rf"\b{before}\b", now, kept)
    return kept


def knowledge_of_today(kept: str) -> str:
    """The kept schema of knowledge with the names of today."""
    for before, now in KNOWLEDGE_RENAMED.items():
        kept = re.sub(rf"\b{before}\b", now, kept)
    return kept


def calls_of_today(kept: str) -> str:
    """What routes ask, as it was kept, with the names of today."""
    for before, now in ASKED.items():
        kept = kept.replace(f"    {before}\n", f"    {now}\n")
    return renamed(kept)


def schema_of_today(merged: dict[str, str]) -> Callable[[str], str]:
    """A change of a kept schema to what it is today."""

    def change(kept: str) -> str:
        return "".join(_part_of_today(part, merged) for part in _PART.split(kept) if part)

    return change


def _part_of_today(part: str, merged: dict[str, str]) -> str:
    head, _, body = part.partition("\n")
    if head not in _ENTRY:
        return part
    entries = (entry for entry in _ENTRY[head].split(body) if entry)
    left = (
        renamed(merged.get(_head(entry), entry))
        for entry in entries
        if name_of(entry) not in REMOVED
    )
    return f"{head}\n{''.join(sorted(left, key=_unsigned))}"


def name_of(entry: str) -> str:
    """The function that a line of a kept schema, or the first of several, is about."""
    found = _FUNCTION.match(_unsigned(entry))
    return found[1] if found else ""


def _head(entry: str) -> str:
    return entry.partition("\n")[0]


def _unsigned(entry: str) -> str:
    return _SIGN.sub("", entry)
