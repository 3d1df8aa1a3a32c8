-- name: sweep_cache
-- Remove shared results that have expired or are too many.
SELECT expired, evicted, excess FROM :"schema".sweep_cache_v1($1, $2, NULL, $3);
