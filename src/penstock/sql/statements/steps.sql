-- name: read_steps
-- Return the saved steps of a job.
SELECT kind, name, result::text FROM :"schema".read_steps_v1($1::bigint, $2::uuid);

-- name: recall_step
-- Return the cached result of a key; NULL if there is none.
SELECT :"schema".recall_step_v1($1::bigint, $2::uuid, $3::text, $4::bytea)::text;
