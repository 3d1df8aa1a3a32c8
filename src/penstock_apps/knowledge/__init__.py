"""Documents in, searchable knowledge out.

from penstock import Penstock
from penstock_apps.knowledge import Knowledge

app = Penstock()
knowledge = Knowledge(app)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_apps.knowledge.knowledge import Knowledge

__all__ = ["Knowledge"]


def __getattr__(name: str) -> Any:
    # Import it only when it is used, so that `penstock --help` stays fast.
    if name == "Knowledge":
        from penstock_apps.knowledge.knowledge import Knowledge

        return Knowledge
    raise AttributeError(name)
