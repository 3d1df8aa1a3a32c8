-- name: sum_dead
-- Dead letters by filter, counted by task, reason and type of error: of the latest $11 at most.
SELECT f.task, f.reason, f.error, count(*)::integer AS number, max(f.id) AS example,
       (array_agg(f.message ORDER BY f.finished_at DESC, f.id DESC))[1] AS message,
       min(f.finished_at) AS first_at, max(f.finished_at) AS last_at
  FROM (
    SELECT h.id, h.task, h.reason, h.finished_at, h.errors -> -1 ->> 'type' AS error,
           left(h.errors -> -1 ->> 'message', 500) AS message
      FROM :"schema".job_history AS h
     WHERE h.state = 'failed'
       AND ($1::text IS NULL OR h.queue = $1::text)
       AND ($2::text IS NULL OR h.task = $2::text)
       AND ($3::text IS NULL OR h.tenant = $3::text)
       AND ($4::text IS NULL OR h.subject = $4::text)
       AND ($5::text IS NULL OR $5::text = ANY (h.tags))
       AND ($6::text IS NULL OR h.reason = $6::text)
       AND ($7::text IS NULL OR h.errors -> -1 ->> 'type' = $7::text)
       AND ($8::bigint IS NULL OR h.batch = $8::bigint)
       AND h.finished_at >= coalesce($9::timestamptz, '-infinity')
       AND h.finished_at < coalesce($10::timestamptz, 'infinity')
     ORDER BY h.finished_at DESC
     LIMIT $11::integer
  ) AS f
 GROUP BY f.task, f.reason, f.error
 ORDER BY number DESC, last_at DESC;
