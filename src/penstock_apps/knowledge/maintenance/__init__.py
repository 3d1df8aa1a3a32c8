"""Jobs that keep the tables and the stored files in order: delete, sweep, rebuild, index."""
