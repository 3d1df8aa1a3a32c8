-- name: match_jobs
-- The ids of jobs by filter, a page at a time, for whoever changes all of them.
SELECT m.id, m.day, m.at, m.until
  FROM :"schema".match_jobs_v1(
           $1::text[], $2::text, $3::text, $4::text, $5::text, $6::text, $7::bigint, $8::bigint, $9::bigint, $10::bigint,
           $11::timestamptz, $12::date, $13::timestamptz, $14::bigint, $15::integer) AS m;
