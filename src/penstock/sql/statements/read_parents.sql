-- name: read_parents
-- What the jobs came to that a job has waited for, for the attempt that owns it.
SELECT id, step, task, state, reason, result::text, error FROM :"schema".read_parents_v1($1::bigint, $2::uuid);
