-- name: find_at_or_below
-- The job with the highest id up to $1, and when it was enqueued: ids rise with time.
SELECT a.id, a.created_at FROM :"schema".job_all AS a WHERE a.id <= $1::bigint ORDER BY a.id DESC LIMIT 1;
