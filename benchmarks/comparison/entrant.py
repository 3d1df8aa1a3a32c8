"""A peer in this run: its environment, what it says of itself, and the settings it runs with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.comparison.environment import ROOT, CannotInstall
from benchmarks.peers.peer import Facts, Settings
from penstock.bench.errors import BenchFailed
from penstock.bench.live import Live


@dataclass
class Entrant:
    """One that takes part."""

    key: str
    interpreter: str  # of its own environment
    facts: Facts
    version: str
    python: str
    settings: Settings
    # Where its package and what drives it are imported from, if not from here and as installed.
    sources: tuple[Path, ...] = ()
    tried: dict[str, float] = field(default_factory=dict)  # the sweep, in jobs a second
    fault: str | None = None  # why it takes part no longer

    @classmethod
    def asked(cls, key: str, interpreter: str, sources: tuple[Path, ...] = ()) -> Entrant:
        """The peer as it describes itself; CannotInstall if it has nothing to say."""
        command = _command(interpreter, sources, key, "facts")
        try:
            answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            raise CannotInstall(f"it does not start: {said.strip().splitlines()[-1]}") from error
        about: dict[str, Any] = json.loads(answer.stdout)
        facts = msgspec.convert(about, Facts)
        version, python = about["version"], about["python"]
        return cls(key, interpreter, facts, version, python, facts.settings, sources)

    @contextmanager
    def or_out(self, live: Live) -> Iterator[None]:
        """Whatever goes wrong ends its part in the run, with the reason, and not the run."""
        try:
            yield
        except (BenchFailed, TimeoutError) as error:
            self.fault = str(error) or "It did not answer in time."
            live.warn(f"{self.facts.name} is out: {self.fault}")

    def command(self, role: str) -> tuple[str, ...]:
        return _command(self.interpreter, self.sources, self.key, role)

    def variants(self) -> list[Settings]:
        """The settings of its file, and each that the sweep tries instead."""
        return [self.facts.settings, *({**self.facts.settings, **one} for one in self.facts.tried)]


def _command(interpreter: str, sources: tuple[Path, ...], key: str, role: str) -> tuple[str, ...]:
    run = ("-m", "benchmarks.peers", key, role)
    if not sources:
        return (interpreter, *run)
    # -P: without the folder that it is started in, which is here.
    return ("env", f"PYTHONPATH={os.pathsep.join(map(str, sources))}", interpreter, "-P", *run)


def spelled(settings: Settings) -> str:
    """Settings in one line."""
    return ", ".join(f"{name} {value:,}" for name, value in settings.items()) or "defaults"
