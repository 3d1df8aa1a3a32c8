-- name: look_at_failures
-- What failed last, newest first, each with its last error. $1 is how many.
SELECT h.id, h.task, h.queue, h.tenant, h.reason, h.attempt, h.finished_at,
       extract(epoch FROM statement_timestamp() - h.finished_at)::double precision AS seconds_ago,
       h.errors -> -1 ->> 'type' AS error_type,
       left(h.errors -> -1 ->> 'message', 500) AS error_message
  FROM :"schema".job_history AS h
 WHERE h.state = 'failed'
 ORDER BY h.finished_at DESC
 LIMIT $1::integer;
