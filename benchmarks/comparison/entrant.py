"""A peer in this run: how it starts, what it says of itself, and the settings it runs with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks.comparison.environment import ROOT, CannotInstall
from benchmarks.peers.peer import Facts, Settings
from penstock.bench.child import BenchFailed
from penstock.bench.report import LiveLine


@dataclass
class Entrant:
    """One that takes part."""

    key: str
    start: tuple[str, ...]  # the command of its processes, to which a role is added
    facts: Facts
    version: str
    python: str
    settings: Settings
    tried: dict[str, float] = field(default_factory=dict)  # the sweep, in jobs a second
    fault: str | None = None  # why it takes part no longer

    @classmethod
    def asked(cls, key: str, start: tuple[str, ...]) -> Entrant:
        """One as it describes itself; CannotInstall if it has nothing to say."""
        try:
            answer = subprocess.run(
                (*start, "facts"), cwd=ROOT, capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            raise CannotInstall(f"it does not start: {said.strip().splitlines()[-1]}") from error
        about: dict[str, Any] = json.loads(answer.stdout)
        facts = msgspec.convert(about, Facts)
        version, python = about["version"], about["python"]
        return cls(key, start, facts, version, python, facts.settings)

    @classmethod
    def of_peer(cls, key: str, interpreter: str) -> Entrant:
        """The peer of this name, in the environment of its interpreter."""
        return cls.asked(key, (interpreter, "-m", "benchmarks.peers", key))

    @contextmanager
    def or_out(self, live: LiveLine) -> Iterator[None]:
        """Whatever goes wrong ends its part in the run, with the reason, and not the run."""
        try:
            yield
        except (BenchFailed, TimeoutError) as error:
            self.fault = str(error) or "It did not answer in time."
            live.warn(f"{self.facts.name} is out: {self.fault}")

    def command(self, role: str) -> tuple[str, ...]:
        return (*self.start, role)

    def variants(self) -> list[Settings]:
        """The settings of its file, and each that the sweep tries instead."""
        return [self.facts.settings, *({**self.facts.settings, **one} for one in self.facts.tried)]


def spelled(settings: Settings) -> str:
    """Settings in one line."""
    return ", ".join(f"{name} {value:,}" for name, value in settings.items()) or "defaults"
