-- name: examine_stuck_jobs
-- Jobs that were put back because no worker could run them, by reason. $1 is the most to look at.
-- They are tried again at least every ten minutes, so they are among those that are due by then.
SELECT s.queue, s.task, s.reason, count(*)::integer AS jobs, min(s.id) AS example,
       max(s.seconds) AS seconds,
       (array_agg(s.message ORDER BY s.id) FILTER (WHERE s.message IS NOT NULL))[1] AS message
  FROM (
    SELECT j.id, j.queue, j.task, coalesce(j.reason, 'unknown') AS reason, j.stuck_since,
           extract(epoch FROM clock_timestamp() - j.stuck_since)::double precision AS seconds,
           left(j.errors -> -1 ->> 'message', 300) AS message
      FROM :"schema".job AS j
     WHERE j.state = 'scheduled' AND j.run_at <= clock_timestamp() + interval '15 minutes'
     ORDER BY j.run_at
     LIMIT $1
  ) AS s
 WHERE s.stuck_since IS NOT NULL
 GROUP BY s.queue, s.task, s.reason
 ORDER BY jobs DESC;
