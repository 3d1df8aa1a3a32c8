-- name: applied_migrations
-- The migrations that were applied, in order.
SELECT number, name, applied_at FROM :"schema".migration ORDER BY number
