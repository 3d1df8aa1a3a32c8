-- name: lock_migrations
-- Wait until nobody else migrates this schema; transaction-level, so it is also right behind PgBouncer.
SELECT pg_advisory_xact_lock(hashtextextended(current_database() || '.' || $1 || '.migrate', 0))
