"""numpy, imported without the threads that its linear algebra starts for itself.

A process that has threads cannot be forked, and isolated jobs live on forks. Nothing here is large
enough to be worth a thread. Whoever imports numpy before, or sets the variable, decides.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock_apps.knowledge.embed.embedder import Vectors

THREADS = "OPENBLAS_NUM_THREADS"

_unset = THREADS not in os.environ
os.environ.setdefault(THREADS, "1")
try:
    import numpy as np
finally:
    if _unset:
        del os.environ[THREADS]

__all__ = ["normalised", "np"]


def normalised(vectors: Vectors) -> Vectors:
    """The same directions, each of length 1; a vector of zeros stays one."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    lengths[lengths == 0] = 1
    return np.ascontiguousarray(vectors / lengths[:, None], dtype=np.float32)
