-- Remove what nobody needs any more.
SELECT leases, keys, progress, buckets FROM :"schema".sweep_v2($1);
