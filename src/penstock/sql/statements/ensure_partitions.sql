-- name: ensure_partitions
-- Build the history partitions that are missing ahead.
SELECT :"schema".ensure_partitions_v1($1);
