-- Enqueue many jobs; their ids in order, and which of them an idempotency key already had.
-- One row with arrays: to read a hundred thousand rows takes a client as long as to send the jobs.
SELECT array_agg(id) AS ids, CASE WHEN bool_or(duplicate) THEN array_agg(duplicate) END AS duplicates
  FROM :"schema".enqueue_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21);
