-- name: sweep
-- Remove what nobody needs any more.
SELECT leases, keys, progress, buckets, batches, workflows FROM :"schema".sweep_v1($1);
