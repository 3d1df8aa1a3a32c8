"""Items that share calls, and items that have one each: how many calls, and how long they wait.

python -m benchmarks.micro_batching
"""
