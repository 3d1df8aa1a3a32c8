-- name: sleep
-- How many seconds are left of a job's sleep.
SELECT :"schema".sleep_v1($1::bigint, $2::uuid, $3::text, $4::timestamptz, $5::double precision);
