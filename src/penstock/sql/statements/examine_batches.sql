-- name: examine_batches
-- Batches that do not come to their end: open and without a change for $1 seconds, or over for $2 and not finished.
-- $3 is the most to look at.
SELECT s.id, s.name, s.is_open, s.seconds
  FROM (SELECT b.id, b.name, b.closed_at IS NULL AS is_open, b.pending,
               extract(epoch FROM clock_timestamp() - CASE WHEN b.closed_at IS NULL
                   THEN greatest(b.created_at, b.folded_at) ELSE b.closed_at END)::double precision AS seconds
          FROM :"schema".batch AS b
         WHERE b.finished_at IS NULL ORDER BY b.id LIMIT $3::integer) AS s
 WHERE CASE WHEN s.is_open THEN s.seconds >= $1::double precision
            ELSE s.seconds >= $2::double precision AND s.pending + (
                SELECT coalesce(sum(d.pending), 0) FROM :"schema".batch_delta AS d WHERE d.batch = s.id) = 0 END
 ORDER BY s.seconds DESC;
