-- name: is_batch_finished
-- Whether a batch is finished, for those who wait: what decides that, and none of its other numbers; see get_batches.
SELECT b.closed_at IS NOT NULL AND b.finished_at IS NOT NULL AND b.pending + d.pending = 0 AS is_finished
  FROM :"schema".batch AS b
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(e.pending), 0) AS pending FROM :"schema".batch_delta AS e WHERE e.batch = b.id) AS d
 WHERE b.id = $1::bigint;
