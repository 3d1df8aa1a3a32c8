-- name: complete_job
-- Lock a job for this attempt until the transaction ends, and complete it. Returns a row only if it could not.
WITH held AS MATERIALIZED (
    SELECT $1::bigint AS id, $2::uuid AS token, :"schema".fence_v1($1::bigint, $2::uuid) AS fence
)
SELECT s.id, s.token, s.answer
  FROM held AS h, LATERAL :"schema".settle_v1(ARRAY[h.id], ARRAY[h.token], p_results => ARRAY[$3::text]) AS s;

-- name: find_completed
-- Return which of these attempts have completed their jobs already.
SELECT job FROM :"schema".find_completed_v1($1::bigint[], $2::uuid[]) AS job;

-- name: save_progress
-- Save the progress of attempts. Returns the jobs of those that no longer own them.
SELECT job FROM :"schema".save_progress_v1($1, $2, $3, $4, $5) AS job;

-- name: try_outcome
-- Raise an error if Postgres cannot store this result or this error, or compute this delay.
SELECT $1::text::jsonb AS result, $2::text::jsonb AS error,
       clock_timestamp() + make_interval(secs => $3::double precision) AS ready_at;
