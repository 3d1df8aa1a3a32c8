"""Limits that all workers share: slots and tokens, as far as this worker has them."""
