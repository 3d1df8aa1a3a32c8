"""What a release has brought to databases is never edited: the next migration changes it."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELEASED = ("src/penstock/sql/migrations", "src/penstock/sql/functions")


def git(*arguments: str) -> list[str]:
    run = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.splitlines() if run.returncode == 0 else []


def test_released_migrations_and_functions_are_unchanged() -> None:
    tags = git("tag", "--list", "v*", "--sort=-version:refname", "--merged")
    if not tags:
        pytest.skip("Nothing has been released: there is no tag v… to compare with.")
    changes = git("diff", "--find-renames=100%", "--name-status", tags[0], "--", *RELEASED)
    # A is a new file, R100 one that only moved.
    assert [each for each in changes if not each.startswith(("A\t", "R100\t"))] == []
