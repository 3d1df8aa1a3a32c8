-- name: take
-- Tokens of rate limits for job starts.
SELECT key, got, wait FROM :"schema".take_v1($1::text[], $2::integer[]);
