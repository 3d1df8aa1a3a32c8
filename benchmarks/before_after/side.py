"""One commit in one scene: how its processes are started."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.before_after.commit import Commit
from benchmarks.comparison.entrant import Entrant
from benchmarks.comparison.environment import ROOT, CannotInstall

# Nobody compiles the same modules in each of its processes, whatever is usual here.
WRITES_CODE = ("-u", "PYTHONDONTWRITEBYTECODE")
ADAPTERS = Path("benchmarks", "before_after", "adapters")


def entrant(commit: Commit, scene: str, jobs: int, name: str) -> Entrant:
    """The commit as one that is measured; CannotInstall if it cannot be driven."""
    try:
        found = Entrant.asked(scene, start(commit, scene))
    except CannotInstall as error:
        raise CannotInstall(f"{scene} of {name}: {error}") from error
    found.facts = replace(found.facts, name=name, jobs=jobs)
    return found


def start(commit: Commit, scene: str) -> tuple[str, ...]:
    """A commit that brings adapters is driven by its own benchmarks, the base by these."""
    brings_adapters = (commit.folder / ADAPTERS).is_dir()
    driver, adapter = (commit.folder, "present") if brings_adapters else (ROOT, "base")
    path = os.pathsep.join(map(str, (commit.folder / "src", driver)))
    # -P: without the folder that it is started in, which is here.
    runner = ("-P", "-m", "benchmarks.before_after.runner", adapter, scene)
    return ("env", *WRITES_CODE, f"PYTHONPATH={path}", sys.executable, *runner)
