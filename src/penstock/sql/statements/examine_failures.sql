-- name: examine_failures
-- What failed in the last hour, by task and error: the latest $1 failures at most.
SELECT f.task, f.reason, f.error, count(*)::integer AS jobs, max(f.id) AS example,
       (array_agg(f.message ORDER BY f.id DESC))[1] AS message
  FROM (
    SELECT h.id, h.task, h.reason, h.errors -> -1 ->> 'type' AS error,
           left(h.errors -> -1 ->> 'message', 200) AS message
      FROM :"schema".job_history AS h
     WHERE h.state = 'failed' AND h.finished_at > statement_timestamp() - interval '1 hour'
     ORDER BY h.finished_at DESC
     LIMIT $1
  ) AS f
 GROUP BY f.task, f.reason, f.error
 ORDER BY jobs DESC;
