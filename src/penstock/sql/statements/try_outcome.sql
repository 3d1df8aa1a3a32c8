-- name: try_outcome
-- Can Postgres keep this result and this error, and wait for so long? If not, it says why.
SELECT $1::text::jsonb AS result, $2::text::jsonb AS error,
       clock_timestamp() + make_interval(secs => $3::double precision) AS ready_at;
