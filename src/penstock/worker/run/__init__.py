"""Running an attempt: from a claimed job to what came of it."""
