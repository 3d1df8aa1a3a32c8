"""What became of jobs that were to change: how many did, and why the others were left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import typer

from penstock.app.client import Client
from penstock.cli.exits import Exit
from penstock.cli.output import Output
from penstock.cli.words import at
from penstock.wording import counted

MISSING = "missing"
HELD = "held"
NAMED = 20

WHY = {
    MISSING: "there is none with this id",
    HELD: "the unique key belongs to another job now",
    "running": "running",
    "scheduled": "scheduled",
    "completed": "completed already",
    "failed": "failed already",
    "cancelled": "cancelled already",
}


@dataclass(slots=True)
class Changed:
    """The answer of every command that retries, cancels or erases, for people and for programs.

    `left` says of each job that was not changed why, `holders` which one has its unique key, and
    `due` when the last of those comes back that come back at a rate. `workflows` are those of which
    so many steps came back without what was cancelled because of them.
    """

    past: str
    number: int = 0
    left: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    due: datetime | None = None
    workflows: Counter[str] = field(default_factory=Counter)

    async def find_holders(self, client: Client) -> None:
        """Ask who has the unique keys that other jobs could not come back for."""
        held = [job for job, why in self.left.items() if why == HELD and job not in self.holders]
        if held:
            self.holders |= await client.unique_holders(held)

    @property
    def exit(self) -> Exit:
        if set(self.left.values()) - {MISSING}:
            return Exit.CONFLICT
        return Exit.NO if self.left else Exit.OK

    def show(self, output: Output, more: str = "") -> None:
        """Tell it, and end the command with the exit code that it means."""
        output.show(self.as_document(), lambda: str(self) + more)
        raise typer.Exit(self.exit)

    def as_document(self) -> dict[str, Any]:
        left = [{"id": job, "why": why} | self._holder(job) for job, why in self.left.items()]
        document: dict[str, Any] = {"changed": self.number, "left": left}
        more = {"due": self.due, "workflows": self.workflows}
        return document | {name: value for name, value in more.items() if value}

    def _holder(self, job: str) -> dict[str, str]:
        return {"held_by": self.holders[job]} if job in self.holders else {}

    def __str__(self) -> str:
        told = sentence(self.number, self.past, Counter(self.left.values()))
        first = list(self.holders.items())[:NAMED]
        told += "".join(f" That of job {job} is job {of}'s." for job, of in first)
        return told + told_of_steps(self.workflows)


def sentence(number: int, past: str, left: Mapping[str, int]) -> str:
    """How many were changed, and how many were left for each reason."""
    told = f"{counted(number, 'job')} {_were(number)} {past}."
    for why, others in sorted(left.items()):
        told += f" {counted(others, 'job')} {_were(others)} left: {WHY.get(why, why)}."
    return told


def told_of_steps(workflows: Mapping[str, int]) -> str:
    """How to bring back what is behind steps that came back alone, as a sentence more."""
    if not workflows:
        return ""
    number, names = sum(workflows.values()), sorted(workflows, key=int)
    steps = "is a step of" if number == 1 else "are steps of"
    flows = "workflow" if len(names) == 1 else "workflows"
    some = ", ".join(names[:NAMED]) + (" and others" if len(names) > NAMED else "")
    return (
        f" {number:,} of them {steps} {flows} {some}: `penstock workflows retry {names[0]}` also "
        f"brings back what was cancelled because of {'it' if number == 1 else 'them'}."
    )


def told_of_rate(rate: str | None, due: datetime | None) -> str:
    """When the last of those is due that come back at a rate, as a sentence more."""
    if rate is None or due is None:
        return ""
    return f" At {rate} the last of them is due at {at(due)} UTC."


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
