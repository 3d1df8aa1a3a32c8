-- name: save_step
-- Keep the result of a step; how many seconds ago its first was kept.
SELECT :"schema".save_step_v1($1::bigint, $2::uuid, $3::text, $4::text, $5::text::jsonb);
