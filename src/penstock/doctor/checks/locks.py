"""Is there room in the server's lock table for those who read the whole history?"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, ok, warning
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.wording import counted


class Room(Struct, frozen=True):
    """`locks` are those of one statement over the whole history; the server has room for so many
    per transaction, times so many transactions."""

    partitions: int
    locks: int
    max_locks: int
    transactions: int

    @property
    def readers(self) -> int:
        """How many connections can read the whole history at once."""
        return self.max_locks * self.transactions // self.locks


async def read(patient: Patient) -> Room:
    [room] = await patient.ask(Room, "examine_locks", patient.schema)
    return room


def judge(room: Room, limits: Limits) -> Sequence[Finding]:
    history = f"{counted(room.partitions, 'partition')} of the history"
    needed = min(limits.history_readers, room.transactions)
    if room.readers >= needed:
        return [ok(f"{room.readers} connections can read all {history} at once.")]
    most = max(64, ceil(needed * room.locks / room.transactions / 64) * 64)
    return [
        warning(
            f"A list of jobs locks all {history} with their indexes, {room.locks} locks. The "
            f"server has room for {counted(room.readers, 'such list')} at once; with more, "
            "statements of every application fail with 'out of shared memory'.",
            "Keep jobs for a shorter time (see `penstock retention list`), let the leader drop "
            "partitions whose day has passed, or give the server more room and restart it:",
            f"ALTER SYSTEM SET max_locks_per_transaction = {most};",
        )
    ]


LOCKS = Check(
    "locks",
    Group.STORAGE,
    "Is there room in the lock table for those who read the whole history?",
    read,
    judge,
)
