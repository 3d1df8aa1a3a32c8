"""Are there settings of the server or the role that hurt?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import Struct

from penstock.doctor.check import Check, Group
from penstock.doctor.finding import Finding, Verdict, ok
from penstock.doctor.limits import Limits
from penstock.doctor.patient import Patient
from penstock.sql import quote


class Setting(Struct, frozen=True):
    """What a new connection of the role gets."""

    name: str
    value: str
    role: str


@dataclass(frozen=True, slots=True)
class Rule:
    """When a value is bad, what comes of it, and which one is good."""

    name: str
    is_bad: Callable[[str], bool]
    verdict: Verdict
    consequence: str
    good: str
    of_server: bool = False

    def finding(self, setting: Setting) -> Finding:
        return Finding(
            self.verdict,
            f"The setting {self.name} is {setting.value}: {self.consequence}.",
            "Change it for the server:" if self.of_server else "Change it for the role:",
            self._change(setting.role),
        )

    def _change(self, role: str) -> tuple[str, ...]:
        if self.of_server:
            return f"ALTER SYSTEM SET {self.name} = {self.good};", "SELECT pg_reload_conf();"
        return (f"ALTER ROLE {quote(role)} SET {self.name} = {self.good};",)


def _is(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _under(milliseconds: int) -> Callable[[str], bool]:
    """A limit that is set (0 means none) and that is shorter."""
    return lambda value: 0 < int(value) < milliseconds


_OFF = _is("off")
_ERROR, _WARNING = Verdict.ERROR, Verdict.WARNING

RULES = (
    Rule("autovacuum", _OFF, _ERROR, "dead rows are never removed", "on", of_server=True),
    Rule(
        "track_counts", _OFF, _ERROR, "autovacuum does not know where to go", "on", of_server=True
    ),
    Rule(
        "fsync", _OFF, _ERROR, "a crash of the machine can destroy the database", "on",
        of_server=True,
    ),
    Rule(
        "full_page_writes", _OFF, _ERROR, "a crash of the machine can destroy the database", "on",
        of_server=True,
    ),
    Rule(
        "synchronous_commit", _OFF, _WARNING,
        "a crash of the server can lose jobs that were enqueued inside your own transactions", "on",
    ),
    Rule(
        "default_transaction_read_only", _is("on"), _ERROR, "no job can be enqueued or run", "off"
    ),
    Rule(
        "default_transaction_isolation", _is("serializable", "repeatable read"), _WARNING,
        "claims and settles that meet fail and must be tried again", "'read committed'",
    ),
    Rule(
        "statement_timeout", _under(5000), _WARNING,
        "large claims and settles on a busy server are given up", "'60s'",
    ),
    Rule(
        "lock_timeout", _under(500), _WARNING,
        "an enqueue with a key that another transaction holds is given up", "'10s'",
    ),
    Rule(
        "idle_in_transaction_session_timeout", _under(10_000), _WARNING,
        "handlers lose their transactions while they wait for something else", "'5min'",
    ),
    Rule(
        "idle_session_timeout", _under(120_000), _WARNING,
        "workers lose the connections on which they listen", "0",
    ),
    Rule(
        "transaction_timeout", _under(60_000), _WARNING,
        "handlers lose transactions that take a while", "0",
    ),
)  # fmt: skip


async def read(patient: Patient) -> list[Setting]:
    # An older server does not have them all.
    return await patient.ask(Setting, "examine_settings", [rule.name for rule in RULES])


def judge(settings: Sequence[Setting], _: Limits) -> Sequence[Finding]:
    found = {setting.name: setting for setting in settings}
    findings = [
        rule.finding(found[rule.name])
        for rule in RULES
        if rule.name in found and rule.is_bad(found[rule.name].value)
    ]
    return findings or [ok("No setting of the server or the role hurts the queue.")]


SETTINGS = Check(
    "settings",
    Group.DATABASE,
    "Are there settings of the server or the role that hurt?",
    read,
    judge,
)
