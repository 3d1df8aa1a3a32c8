-- name: paused
-- The queues that are paused.
SELECT q.name FROM :"schema".queue AS q WHERE q.paused_at IS NOT NULL ORDER BY q.name;
