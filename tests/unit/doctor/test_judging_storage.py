"""What the doctor makes of what it read about storage: tables, without a database."""

from datetime import date
from typing import Any

import pytest

from penstock.doctor.check import CheckLimits
from penstock.doctor.checks import storage
from penstock.doctor.checks.storage import (
    HiddenSessions,
    LockTable,
    MissingPartition,
    OldSnapshots,
    PartitionFacts,
    Relation,
    Relations,
    SnapshotHolder,
)

LIMITS = CheckLimits()
SOMEDAY = date(2026, 7, 18)
MILLION = 1_000_000
GB = 1 << 30


@pytest.mark.parametrize(
    ("holder", "verdict"),
    [
        (SnapshotHolder("session", 5, seconds=899, pid=1), "ok"),
        (SnapshotHolder("session", 5, seconds=900, pid=1), "warning"),
        (SnapshotHolder("session", 5, seconds=14_400, pid=1), "error"),
        # Where the age is known, it counts alone.
        (SnapshotHolder("session", 200 * MILLION, seconds=1, pid=1), "ok"),
        (SnapshotHolder("prepared", 5, seconds=900, name="order"), "warning"),
        (SnapshotHolder("slot", 4 * MILLION, name="standby"), "ok"),
        (SnapshotHolder("slot", 5 * MILLION, name="standby"), "warning"),
        (SnapshotHolder("slot", 100 * MILLION, name="standby"), "error"),
        (SnapshotHolder("standby", 5 * MILLION, pid=1, application="berlin"), "warning"),
    ],
)
def test_a_holder_of_a_snapshot(holder: SnapshotHolder, verdict: str) -> None:
    [finding] = storage.judge_snapshots(OldSnapshots((holder,), HiddenSessions(0, "ada")), LIMITS)
    assert finding.verdict == verdict


def test_prepared_transaction_is_quoted_for_pasting() -> None:
    holder = SnapshotHolder("prepared", 5, seconds=10**6, name="ada's")
    [finding] = storage.judge_snapshots(OldSnapshots((holder,), HiddenSessions(0, "ada")), LIMITS)
    assert finding.paste == ("ROLLBACK PREPARED 'ada''s';",)


@pytest.mark.parametrize(
    ("relation", "verdict"),
    [
        (dict(bytes=0, live=0), "ok"),
        # A table just emptied is large, but not too large.
        (dict(bytes=100 << 20, live=0, expected=0), "ok"),
        (dict(bytes=GB, live=0, expected=0), "warning"),
        (dict(bytes=GB, live=MILLION, expected=GB // 3), "ok"),
        (dict(bytes=GB, live=MILLION, expected=GB // 5), "warning"),
        # Never analyzed: nobody knows what it should take.
        (dict(bytes=GB, live=MILLION, expected=None), "ok"),
        (dict(bytes=0, live=0, dead=99_999), "ok"),
        (dict(bytes=0, live=0, dead=100_000), "warning"),
        (dict(bytes=0, live=MILLION, dead=MILLION), "ok"),
        (dict(bytes=0, live=MILLION, dead=2 * MILLION), "warning"),
        (dict(bytes=0, live=0, unattended=True), "error"),
    ],
)
def test_a_table(relation: dict[str, Any], verdict: str) -> None:
    found = Relation(kind="table", name="job", **relation)
    [finding] = storage.judge_bloat(Relations("penstock", (found,)), LIMITS)
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        (None, "ok"),
        (5, "ok"),
        (4, "warning"),
        (3, "warning"),
        (2, "error"),
        (1, "error"),
        (0, "error"),
    ],
)
def test_partitions_ahead(gap: int | None, verdict: str) -> None:
    found = None if gap is None else MissingPartition(gap, 30, SOMEDAY, apart=False)
    [finding] = storage.judge_partitions(PartitionFacts("penstock", found), LIMITS)
    assert finding.verdict == verdict


def test_the_schemas_name_is_in_what_is_to_be_pasted() -> None:
    [finding] = storage.judge_partitions(
        PartitionFacts("Queue", MissingPartition(0, 30, SOMEDAY, apart=True)), LIMITS
    )
    assert finding.paste == (
        'ALTER TABLE "Queue".job_history ATTACH PARTITION "Queue"."job_history_20260718" '
        "FOR VALUES FROM ('2026-07-18') TO ('2026-07-19');",
    )


@pytest.mark.parametrize(
    ("partitions", "transactions", "verdict", "setting"),
    [
        (20, 100, "ok", None),
        (34, 100, "ok", None),  # 400 days
        (370, 100, "warning", 448),  # one a day for a year
        (370, 2000, "ok", None),
        (34, 5, "warning", 256),  # five readers are all there can be
    ],
)
def test_the_lock_table_has_room_for_twenty_readers(
    partitions: int, transactions: int, verdict: str, setting: int | None
) -> None:
    room = LockTable(
        partitions, locks=6 * (partitions + 1), max_locks=64, transactions=transactions
    )
    [finding] = storage.judge_locks(room, LIMITS)
    assert finding.verdict == verdict
    if setting is not None:
        assert finding.paste == (f"ALTER SYSTEM SET max_locks_per_transaction = {setting};",)
