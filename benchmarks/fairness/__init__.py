"""Very many tenants with very unequal loads on two real workers: fair turns against first come.

    python -m benchmarks.fairness --json benchmarks/results/fairness.json

Both times the same jobs arrive at the same moments; only the queue's setting differs.
"""
