-- What waits and runs in each queue: the names in use, bounded counts, and since when the oldest waits.
-- $1 is how far to count. A skip scan finds the queues that have ready jobs: one step a queue, not one a job.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), ready AS (
    SELECT n.queue, c.jobs, l.oldest
      FROM (SELECT m.queue FROM name AS m WHERE m.queue IS NOT NULL LIMIT 1000) AS n
     CROSS JOIN LATERAL (
           SELECT count(*) AS jobs
             FROM (SELECT FROM :"schema".job AS j WHERE j.state = 'ready' AND j.queue = n.queue
                    LIMIT $1::integer + 1) AS few) AS c
     CROSS JOIN LATERAL (
           SELECT min(s.ready_at) AS oldest FROM :"schema".scan_lines_v1(n.queue, 100) AS s) AS l
), scheduled AS (
    SELECT s.queue, count(*) AS jobs, sum(count(*)) OVER () AS seen
      FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'scheduled'
             ORDER BY j.run_at LIMIT $1::integer + 1) AS s
     GROUP BY s.queue
), running AS (
    SELECT r.queue, count(*) AS jobs, sum(count(*)) OVER () AS seen
      FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'running'
             ORDER BY j.lease LIMIT $1::integer + 1) AS r
     GROUP BY r.queue
)
SELECT u.queue AS name, q.paused_at,
       coalesce(r.jobs, 0) AS ready, coalesce(s.jobs, 0) AS scheduled, coalesce(x.jobs, 0) AS running,
       coalesce((SELECT max(seen) FROM scheduled), 0)::bigint AS scheduled_in_all,
       coalesce((SELECT max(seen) FROM running), 0)::bigint AS running_in_all,
       extract(epoch FROM statement_timestamp() - r.oldest)::double precision AS waited
  FROM (SELECT queue FROM ready UNION SELECT queue FROM scheduled UNION SELECT queue FROM running
        UNION SELECT name FROM :"schema".queue) AS u (queue)
  LEFT JOIN :"schema".queue AS q ON q.name = u.queue
  LEFT JOIN ready AS r ON r.queue = u.queue
  LEFT JOIN scheduled AS s ON s.queue = u.queue
  LEFT JOIN running AS x ON x.queue = u.queue
 ORDER BY u.queue;
