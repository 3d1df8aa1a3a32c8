"""The context that a handler receives, with its budgets, steps, waits, caches and errors."""
