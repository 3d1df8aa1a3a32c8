"""Import numpy without the threads that its linear algebra starts.

A process with threads cannot be forked, and isolated jobs need forks. The vectors of this package
are too small for threads to make a difference. This module has no effect if numpy was imported
before, or if OPENBLAS_NUM_THREADS is set.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

THREADS_VARIABLE = "OPENBLAS_NUM_THREADS"

_is_unset = THREADS_VARIABLE not in os.environ
os.environ.setdefault(THREADS_VARIABLE, "1")
try:
    import numpy as np
finally:
    if _is_unset:
        del os.environ[THREADS_VARIABLE]

__all__ = ["normalised", "np"]


def normalised(vectors: Vectors) -> Vectors:
    """Return the vectors scaled to length 1. A vector of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    lengths[lengths == 0] = 1
    return np.ascontiguousarray(vectors / lengths[:, None], dtype=np.float32)
