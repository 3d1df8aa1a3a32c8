-- name: lose_unwritten
-- Count a loss for jobs that ran and whose outcomes cannot be written.
SELECT id, lost FROM :"schema".lose_unwritten_v1($1::bigint[], $2::uuid[], $3);
