-- Remove shared results that have expired or are too many.
SELECT expired, evicted FROM :"schema".sweep_cache_v1($1, $2);
