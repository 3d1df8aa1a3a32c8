"""Applications on top of Penstock. They use its public API alone."""
