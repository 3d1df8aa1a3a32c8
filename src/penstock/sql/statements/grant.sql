-- name: grant
-- Slots of concurrency limits for a lease.
SELECT key, slots, share FROM :"schema".grant_v1($1::bigint, $2::text[], $3::integer[], $4::integer[]);
