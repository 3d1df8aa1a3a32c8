-- name: read_steps
-- What the steps of a job have come to.
SELECT kind, name, result::text FROM :"schema".read_steps_v1($1::bigint, $2::uuid);

-- name: recall_step
-- The result that a step had before for the same key; NULL if there is none.
SELECT :"schema".recall_step_v1($1::bigint, $2::uuid, $3::text, $4::bytea)::text;
