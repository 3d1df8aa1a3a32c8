"""Writes the numbers of docs/benchmarks.md anew from benchmarks/results; it measures nothing.

python -m benchmarks.page
"""
