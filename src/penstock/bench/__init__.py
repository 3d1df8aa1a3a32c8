"""Measure the queue on this machine, in a schema that is dropped afterwards.

    document = await measure(Plan(jobs=100_000), Database.of("postgresql://…"), Live())

Machines differ, so a run reports ratios between measurements that it took in turn.

This file imports nothing, because the measured processes are modules of this package too. They
should use no more memory than a worker does.
"""
