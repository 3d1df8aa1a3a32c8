"""Files that a service outside reads for us."""
