"""Plain jobs with an older commit and with the present files, in turn, in one run on one server.

    python -m benchmarks.before_after --before COMMIT

Both are measured from outside, by the code that compares Penstock with its peers.
"""
