-- name: examine_ready_jobs
-- What waits to be claimed, by queue and task: of each queue the first jobs in line, at most $1.
-- A skip scan of the ready index finds the queues: one step a queue, not one a job.
WITH RECURSIVE line AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > l.queue ORDER BY j.queue LIMIT 1)
      FROM line AS l WHERE l.queue IS NOT NULL
)
SELECT w.queue, w.task, count(*)::integer AS jobs, min(w.id) AS example,
       extract(epoch FROM clock_timestamp() - min(w.ready_at))::double precision AS seconds,
       extract(epoch FROM clock_timestamp() - min(q.paused_at))::double precision AS paused
  FROM (SELECT l.queue FROM line AS l WHERE l.queue IS NOT NULL LIMIT 500) AS l
 CROSS JOIN LATERAL (
       SELECT j.id, j.queue, j.task, j.ready_at FROM :"schema".job AS j
        WHERE j.state = 'ready' AND j.queue = l.queue
        ORDER BY j.lane, j.priority DESC, j.ready_at, j.id
        LIMIT $1) AS w
  LEFT JOIN :"schema".queue AS q ON q.name = w.queue
 GROUP BY w.queue, w.task
 ORDER BY w.queue, jobs DESC;
