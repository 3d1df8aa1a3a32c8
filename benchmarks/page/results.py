"""The stored documents of the runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "results"
DOCS = Path(__file__).parents[2] / "docs"

Document = dict[str, Any]


def read(name: str) -> Document:
    document: Document = json.loads((FOLDER / f"{name}.json").read_text())
    return document


def runs() -> list[Document]:
    """The runs of `penstock bench`, one for each version of Postgres, newest first."""
    found = [read(path.stem) for path in FOLDER.glob("bench*.json")]
    return sorted(found, key=lambda run: -int(run["postgres"].split(".")[0]))


def postgres(run: Document) -> str:
    return f"Postgres {run['postgres'].split()[0]}"


def machine(run: Document) -> str:
    """Where it ran, and how durable a commit was."""
    durable = ", ".join(
        f"`{name} = {run[name]}`" for name in ("fsync", "synchronous_commit", "full_page_writes")
    )
    return (
        f"{run['machine']['system']} with {run['machine']['cores']} cores, shared by Postgres, the "
        f"workers and the bench; {durable}; Python {run['python']}"
    )


def is_disturbed(run: Document) -> bool:
    """Others used the machine: even ratios are then little worth."""
    # The run before this one leaves a load of about one behind it.
    return bool(run["machine"]["load_before"] > run["machine"]["cores"] * 0.75)


def load(run: Document) -> str:
    before = run["machine"]["load_before"]
    if is_disturbed(run):
        return f"**Other programs ran at the same time (load {before:.1f}): this is preliminary.**"
    return f"The load of the machine before was {before:.1f}."
