"""Promises about several jobs at once, each from the record alone.

I4  a unique key is held by at most one live job
I5  one job per (schedule, tick)
I6  slots granted to unexpired leases stay within the limit
I8  a row stays its tenant's, and is the tenant's who asked for it
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.chaos.evidence import Entry, Evidence
from tests.chaos.life import Leases

UNDER_WAY = timedelta(seconds=2)


def unique_keys(evidence: Evidence) -> Iterator[str]:
    """I4. Who wants a key waits for the transaction of who has it: the record has their order."""
    holders: dict[tuple[str, str], int] = {}
    for entry in evidence.journal:
        if entry.source != "job":
            continue
        was, now = _key(entry.was), _key(entry.now)
        if was is not None and was != now and holders.get(was) == entry.id:
            del holders[was]
        if now is None:
            continue
        holder = holders.setdefault(now, entry.id)
        if holder != entry.id:
            yield f"I4 jobs {holder} and {entry.id} were live with the unique key {now[1]!r}"


def _key(row: dict[str, Any] | None) -> tuple[str, str] | None:
    if row is None or row.get("unique_key") is None:
        return None
    return row["tenant"], row["unique_key"]


def ticks(evidence: Evidence) -> Iterator[str]:
    """I5. A tick that is stored again after it was removed counts as well."""
    jobs: dict[tuple[str, datetime], set[int]] = defaultdict(set)
    for entry in evidence.journal:
        tick, job = _tick(entry)
        if tick is not None and job is not None:
            jobs[tick].add(job)
    for (schedule, tick), stored in jobs.items():
        if len(stored) > 1:
            yield f"I5 the tick {tick} of {schedule} has jobs {sorted(stored)}"


def _tick(entry: Entry) -> tuple[tuple[str, datetime] | None, int | None]:
    """The tick that is told of here, and its job if it has one."""
    now = entry.now or {}
    if entry.source == "fire" and entry.now is not None:
        return (now["schedule"], datetime.fromisoformat(now["tick"])), now["job"]
    if entry.source == "job" and entry.was is None and now.get("of", [None])[0] is not None:
        schedule, tick = now["of"]
        return (schedule, datetime.fromisoformat(tick)), entry.id
    return None, None


def granted_slots(evidence: Evidence, leases: Leases) -> Iterator[str]:
    """I6. A grant that was under way when a limit changed may be one by the limit of before."""
    granted: dict[str, dict[int, int]] = defaultdict(dict)
    limits: dict[str, int | None] = {}
    before, changed = limits, datetime.min.replace(tzinfo=UTC)
    for entry in evidence.journal:
        row = entry.now or entry.was or {}
        if entry.source == "limit":
            before, changed = limits, entry.at
            limits = limits | {row["key"]: None if entry.now is None else row["slots"]}
        elif entry.source == "grant":
            held = granted[row["key"]]
            had = held.pop(row["lease"], 0)
            if entry.now is None:
                continue
            held[row["lease"]] = row["slots"]
            living = {
                lease: slots for lease, slots in held.items() if _is_living(leases, lease, entry)
            }
            is_new = entry.at - changed < UNDER_WAY
            most = _most(row["key"], limits, *([before] if is_new else []))
            if row["slots"] > had and most is not None and sum(living.values()) > most:
                yield f"I6 of {row['key']}, {most} slots, leases were granted {living}"


def _is_living(leases: Leases, lease: int, entry: Entry) -> bool:
    return not leases.was_over(lease, entry.seq, entry.at)


def _most(key: str, *limits: dict[str, int | None]) -> int | None:
    """The higher of the limits that hold for a key, its own before that of a pattern."""
    found: list[int] = []
    for each in limits:
        fitting = [one for one in each if _covers(one, key)]
        own = max(fitting, key=lambda one: (one == key, len(one)), default=None)
        slots = None if own is None else each[own]
        if slots is None:
            return None
        found.append(slots)
    return max(found)


def _covers(pattern: str, key: str) -> bool:
    return pattern == key or (pattern.endswith("*") and key.startswith(pattern[:-1]))


def tenants(evidence: Evidence) -> Iterator[str]:
    """I8. Of a job in all its states, and of what a client was told of it."""
    owners: dict[int, str] = {}
    for entry in evidence.journal:
        if entry.source not in ("job", "history"):
            continue
        for row in (entry.was, entry.now):
            if row is not None and owners.setdefault(entry.id, row["tenant"]) != row["tenant"]:
                yield f"I8 job {entry.id} of {owners[entry.id]!r} became {row['tenant']!r}'s"
    for ack in evidence.lines("enqueue", "ok"):
        owner, asked = owners.get(ack["job"]), ack.get("tenant")
        if None not in (owner, asked) and owner != asked:
            yield f"I8 {asked!r} was given job {ack['job']}, which is {owner!r}'s"
