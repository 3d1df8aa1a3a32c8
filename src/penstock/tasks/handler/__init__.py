"""The context of a handler, and what belongs to it: budgets, steps, waits, caches and errors."""
