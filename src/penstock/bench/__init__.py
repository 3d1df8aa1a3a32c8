"""Measure the queue on this machine, in a schema that is dropped afterwards.

    document = await measure(BenchPlan(), Database.of("postgresql://…"), LiveLine())

Absolute rates depend on the machine. Each run therefore also reports ratios between
measurements that it took in turn.

This file imports nothing, because the measured processes run modules of this package, and
should use no more memory than a worker does.
"""
