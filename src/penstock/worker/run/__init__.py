"""Running an attempt: from a claimed job to its outcome."""
