"""What became of functions since the schema was kept: the only differences that its guards allow.

The kept texts are from before. They are compared as if they had been kept with these changes: a new
version took the first one's name, older versions went, and what wrapped its older version holds it.
Whoever keeps the schema anew empties these tables, and the text of the merged functions.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

RENAMED = {
    "announce_v2": "notify_enqueued_v1",
    "be_unique_v1": "apply_unique_v1",
    "call_back_v1": "enqueue_callback_v1",
    "claim_v3": "claim_v1",
    "close_lease_v2": "close_lease_v1",
    "completed_v1": "find_completed_v1",
    "correct_v1": "adjust_budget_v1",
    "dead_v1": "only_failed_v1",
    "delete_v3": "delete_v1",
    "depend_v1": "add_dependencies_v1",
    "doom_v1": "dependents_to_cancel_v1",
    "due_v1": "list_due_schedules_v1",
    "enqueue_v3": "enqueue_v1",
    "ensure_partitions_v2": "ensure_partitions_v1",
    "event_key_v1": "event_lock_key_v1",
    "extend_from_v1": "extend_own_workflow_v1",
    "extend_v1": "extend_workflow_v1",
    "finish_v1": "finish_jobs_v1",
    "finish_v2": "finish_jobs_v1",
    "fire_v1": "fire_schedules_v1",
    "free_children_v1": "release_dependents_v1",
    "grant_v1": "grant_slots_v1",
    "hold_attempt_v1": "lock_attempt_v1",
    "hold_keys_v1": "claim_idempotency_keys_v1",
    "hold_unique_v1": "claim_unique_keys_v1",
    "hold_waits_v1": "lock_event_waits_v1",
    "is_paused_v1": "is_queue_paused_v1",
    "joins_v1": "is_shared_batch_v1",
    "keep_durable_v1": "commit_durably_v1",
    "late_v1": "lateness_v1",
    "limit_v1": "get_limit_v1",
    "lose_unwritten_v1": "mark_outcome_lost_v1",
    "lose_v1": "mark_worker_lost_v1",
    "mark_begun_v1": "mark_started_v1",
    "move_v1": "move_to_lanes_v1",
    "name_steps_v1": "resolve_steps_v1",
    "note_v1": "write_audit_v1",
    "overlap_v1": "schedule_overlap_v1",
    "owns_v1": "owns_job_v1",
    "place_v1": "assign_lanes_v1",
    "progress_v1": "save_progress_v1",
    "put_back_v2": "reschedule_v1",
    "release_keys_v1": "release_unique_keys_v1",
    "release_v1": "release_jobs_v1",
    "replace_v1": "replace_jobs_v1",
    "reserve_v1": "reserve_budget_v1",
    "retry_v2": "retry_v1",
    "rules_v1": "read_rules_v1",
    "rules_version_v1": "read_rules_version_v1",
    "scan_lines_v2": "scan_lanes_v1",
    "settle_unlocked_v2": "settle_unlocked_v1",
    "settle_v2": "settle_v1",
    "sweep_v3": "sweep_v1",
    "take_v1": "take_tokens_v1",
    "unserved_v1": "list_unserved_queues_v1",
    "wait_again_v1": "restore_dependencies_v1",
    "wake_waits_v1": "wake_due_waits_v1",
    "window_v1": "check_windows_v1",
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
# Names within a function, by the function's name of today.
WORDS = {
    "claim_v1": {
        "p_marks": "p_cursor_times",
        "p_mark_ids": "p_cursor_ids",
        "mark": "cursor_time",
        "mark_id": "cursor_id",
    },
    "promote_v1": {"p_mark": "p_after", "mark": "upto"},
}
KNOWLEDGE_RENAMED = {"search_place": "search_place_v1"}
# Types in signatures that users do not name themselves.
TYPES = {
    "Brought": "ReadSnapshots",
    "Ending": "BudgetSettlement",
    "Host": "PoolHost",
    "Life": "PoolCore",
    "Link": "Connector",
    "Places": "StepReferences",
    "Portal": "BlockingPortal",
    "Settings": "TaskSettings",
    "Tenants": "TenantFilter",
    "life": "core",
}
# Descriptions in the OpenAPI document, in plain English now.
API_TEXTS: dict[str, str] = json.loads(
    (Path(__file__).parent / "api_texts.json").read_text("utf-8")
)
# Lines of what routes ask, which are cut: all lists of jobs name the table of jobs by the same
# letter, and a function was renamed.
ASKED = {
    "SELECT h.id, h.task, h.state, h.queue, h.lane, h.reason, h.priority, h.tenant, h.subject, ": (
        "SELECT a.id, a.task, a.state, a.queue, a.lane, a.reason, a.priority, a.tenant, a.subject, "
    ),
    'WITH line AS MATERIALIZED ( SELECT s.lane, s.priority, s.ready_at FROM "penstock".scan_lin': (
        'WITH line AS MATERIALIZED ( SELECT s.lane, s.priority, s.ready_at FROM "penstock".scan_lan'
    ),
}

_PART = re.compile(r"(?m)^(?=== )")
# In a list of differences three signs come before: what is new, what is gone, or neither.
_ENTRY = {
    "== functions": re.compile(r"(?m)^(?=(?:[-+ ] )?CREATE OR REPLACE FUNCTION )"),
    "== rights to functions": re.compile(r"(?m)^(?=.)"),
}
_COMMENT = re.compile(r"(?m)(?:^|\s)-- .*$")
_INDENTATION = re.compile(r"(?m)^([-+ ] )?[ ]+|[ ]+$")
_EMPTY_LINES = re.compile(r"\n{2,}")
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


def api_of_today(kept: str) -> str:
    """The kept OpenAPI document with the texts of today."""
    return json.dumps(_reworded(json.loads(kept)), indent=1, sort_keys=True) + "\n"


def _reworded(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _reworded(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_reworded(value) for value in part]
    return API_TEXTS.get(part, part) if isinstance(part, str) else part


def calls_of_today(kept: str) -> str:
    """What routes ask, as it was kept, with the names of today."""
    for before, now in ASKED.items():
        kept = kept.replace(f"    {before}\n", f"    {now}\n")
    return renamed(kept)


def without_layout(schema: str) -> str:
    """A schema without the comments in its functions, and without indentation."""
    return _EMPTY_LINES.sub("\n", _INDENTATION.sub("", _COMMENT.sub("", schema)))


def schema_of_today(merged: dict[str, str]) -> Callable[[str], str]:
    """A change of a kept schema to what it is today."""

    def change(kept: str) -> str:
        return "".join(_part_of_today(part, merged) for part in _PART.split(kept) if part)

    return change


def _part_of_today(part: str, merged: dict[str, str]) -> str:
    head, _, body = part.partition("\n")
    if head not in _ENTRY:
        return renamed(part)
    entries = (entry for entry in _ENTRY[head].split(body) if entry)
    left = (
        _entry_of_today(merged.get(_head(entry), entry))
        for entry in entries
        if name_of(entry) not in REMOVED
    )
    return f"{head}\n{''.join(sorted(left, key=_unsigned))}"


def _entry_of_today(entry: str) -> str:
    entry = renamed(entry)
    for before, now in WORDS.get(name_of(entry), {}).items():
        entry = re.sub(rf"\b{before}\b", now, entry)
    return entry


def name_of(entry: str) -> str:
    """The function that a line of a kept schema, or the first of several, is about."""
    found = _FUNCTION.match(_unsigned(entry))
    return found[1] if found else ""


def _head(entry: str) -> str:
    return entry.partition("\n")[0]


def _unsigned(entry: str) -> str:
    return _SIGN.sub("", entry)
