"""Measure the queue on this machine: ratios taken in one run, on a schema of the bench's own.

    document = await measure(Plan(jobs=100_000), Database.of("postgresql://…"), Live())

Nothing is imported here: the measured processes live in this package too and should carry no more
than a worker does.
"""
