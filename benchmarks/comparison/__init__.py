"""Penstock and its peers measured in turn, from outside, by the same code.

    python -m benchmarks.compare

Each peer runs in processes of its own environment (benchmarks/peers), each measurement in a fresh
database of one durable Postgres, and all of them round by round in rotating order, so that a noisy
moment hits everybody alike.
"""
