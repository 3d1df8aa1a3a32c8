-- Remove what nobody needs any more.
SELECT leases, keys, progress FROM :"schema".sweep_v1($1);
