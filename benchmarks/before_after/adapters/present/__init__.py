"""The scenes whose names in Penstock are no longer those of the base; none so far."""
