"""How a call reaches Postgres: its connection, its tenant, its waits, and how it wakes workers."""
