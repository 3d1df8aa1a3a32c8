-- name: read_steps
-- What the steps of a job have come to.
SELECT kind, name, result::text FROM :"schema".read_steps_v1($1::bigint, $2::uuid);

-- name: save_step
-- Keep the result of a step; how many seconds ago its first was kept.
SELECT :"schema".save_step_v1($1::bigint, $2::uuid, $3::text, $4::text, $5::text::jsonb);

-- name: recall_step
-- The result that a step had before for the same key; NULL if there is none.
SELECT :"schema".recall_step_v1($1::bigint, $2::uuid, $3::text, $4::bytea)::text;

-- name: share_step
-- Keep the result of a step, for its job and for others.
SELECT :"schema".share_step_v1($1::bigint, $2::uuid, $3::text, $4::text::jsonb, $5::bytea, $6::double precision);

-- name: sleep
-- How many seconds are left of a job's sleep.
SELECT :"schema".sleep_v1($1::bigint, $2::uuid, $3::text, $4::timestamptz, $5::double precision);

-- name: sweep_steps
-- Remove the steps of jobs that are gone, from one job on.
SELECT swept, upto FROM :"schema".sweep_steps_v1($1, $2);

-- name: sweep_cache
-- Remove shared results that have expired or are too many.
SELECT expired, evicted, excess FROM :"schema".sweep_cache_v1($1, $2, NULL, $3);
