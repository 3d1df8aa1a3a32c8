-- name: extend_from
-- Add jobs to the workflow of a running job, for the attempt that owns it.
SELECT id, duplicate FROM :"schema".extend_from_v1($1::bigint, $2::uuid, $3::integer, $4::text::jsonb);
