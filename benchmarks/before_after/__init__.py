"""An older commit and the present files, in turn, in one run on one server: the guard of speed.

    python -m benchmarks.before_after --scenes plain,limits --json result.json

Both are measured from outside, by the code that compares Penstock with its peers. Each runs in
processes of its own, in which it is called by the names that it has: see `adapters`.
"""
