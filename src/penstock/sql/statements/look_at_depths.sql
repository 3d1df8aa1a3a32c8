-- name: look_at_depths
-- How deep the queues are, for a gauge: so many in each state, and since when the oldest ready one waits.
-- $1 is how far to count, the ready ones in each queue, the others over all queues together.
-- Of the queues with ready jobs the first $2 by name are counted.
-- A skip scan finds the queues that have ready jobs: one step a queue, not one a job.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
)
SELECT n.queue, 'ready' AS state, c.jobs,
       extract(epoch FROM statement_timestamp() - l.oldest)::double precision AS waited
  FROM (SELECT m.queue FROM name AS m WHERE m.queue IS NOT NULL LIMIT $2::integer) AS n
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS j WHERE j.state = 'ready' AND j.queue = n.queue
                LIMIT $1::integer) AS few) AS c
 CROSS JOIN LATERAL (
       SELECT min(s.ready_at) AS oldest FROM :"schema".scan_lines_v1(n.queue, '', 100) AS s) AS l
UNION ALL
SELECT r.queue, 'running', count(*), NULL
  FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'running' LIMIT $1::integer) AS r GROUP BY r.queue
UNION ALL
SELECT s.queue, 'scheduled', count(*), NULL
  FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'scheduled' ORDER BY j.run_at LIMIT $1::integer) AS s
 GROUP BY s.queue
UNION ALL
SELECT b.queue, 'blocked', count(*), NULL
  FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'blocked' ORDER BY j.queue LIMIT $1::integer) AS b
 GROUP BY b.queue;
