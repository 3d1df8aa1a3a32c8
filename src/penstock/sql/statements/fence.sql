-- name: fence
-- Hold a job for this attempt until the transaction ends.
SELECT :"schema".fence_v1($1::bigint, $2::uuid);
