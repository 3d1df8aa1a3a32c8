-- name: extend
-- Add jobs to a workflow.
SELECT id, duplicate FROM :"schema".extend_v1($1::bigint, $2::text::jsonb, NULL, NULL, $3::text::jsonb);
