"""How a call reaches Postgres: connections, tenants, retries, waiting, and waking workers."""
