-- name: read_steps
-- What the steps of a job have come to.
SELECT kind, name, result::text FROM :"schema".read_steps_v1($1::bigint, $2::uuid);
