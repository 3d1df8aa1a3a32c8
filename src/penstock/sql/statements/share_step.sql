-- name: share_step
-- Keep the result of a step, for its job and for others.
SELECT :"schema".share_step_v1($1::bigint, $2::uuid, $3::text, $4::text::jsonb, $5::bytea, $6::double precision);
