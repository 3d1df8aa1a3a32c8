"""A module that does nothing when it is imported."""

import os

from penstock import task

IMPORTED_BY = os.getpid()


@task(name="isolation.plain", isolate=True)
def has_imported() -> bool:
    """Whether this very process has imported the module, and is no fork."""
    return os.getpid() == IMPORTED_BY
