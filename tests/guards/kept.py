"""Texts that are kept beside the tests, to be compared with what there is now.

`KEEP=1 .venv/bin/pytest tests/guards` writes them anew. Read the difference before you commit it:
it is what users, or a database that is migrated, would notice.
"""

import difflib
import os
from collections.abc import Callable
from pathlib import Path

KEPT = Path(__file__).parent / "kept"
LINES_TOLD = 60


def compare(
    name: str,
    found: str,
    since: Callable[[str], str] | None = None,
    alike: Callable[[str], str] = str,
) -> None:
    """Expect that it is what was kept under this name, with the changes that are listed since.

    `alike` takes from both texts what makes no difference.
    """
    path = KEPT / name
    if os.environ.get("KEEP"):
        assert since is None, "Empty the tables in renames.py, and keep it without `since`."
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, "utf-8")
        return
    kept = path.read_text("utf-8") if path.exists() else ""
    kept, found = alike(kept if since is None else since(kept)), alike(found)
    if found != kept:
        lines = difflib.unified_diff(
            kept.splitlines(), found.splitlines(), f"kept/{name}", "now", n=1, lineterm=""
        )
        told = list(lines)
        more = f"\n… and {len(told) - LINES_TOLD} lines more" if len(told) > LINES_TOLD else ""
        raise AssertionError(
            "\n".join(told[:LINES_TOLD]) + more + "\nIf that is meant: KEEP=1 pytest tests/guards"
        )
