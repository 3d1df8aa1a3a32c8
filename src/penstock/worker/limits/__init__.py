"""Concurrency and rate limits that all workers share: this worker's slots and tokens."""
