-- name: examine_late_jobs
-- Jobs past their soft deadline, by queue. $1 is the most to look at: of those that wait from the oldest of each
-- line on, of those that run, and of those that are due.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane, s.priority
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lines_v1(n.queue, '', $1::integer) AS s
     WHERE n.queue IS NOT NULL
     LIMIT $1::integer
), found AS (
    SELECT f.id, f.queue, f.lane, f.tenant, f.run_at
      FROM line AS l
     CROSS JOIN LATERAL (
           SELECT j.id, j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
            WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = l.lane AND j.priority = l.priority
            ORDER BY j.ready_at, j.id
            LIMIT greatest($1::integer / greatest((SELECT count(*) FROM line), 1), 1)) AS f
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'running' ORDER BY j.lease LIMIT $1::integer)
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'scheduled' AND j.run_at < statement_timestamp() ORDER BY j.run_at LIMIT $1::integer)
)
SELECT f.queue, count(*)::integer AS jobs, max(d.late) AS seconds,
       count(DISTINCT split_part(f.lane, E'\x1f', 1))::integer AS lanes
  FROM found AS f
 CROSS JOIN LATERAL :"schema".late_v1(f.queue, f.lane, f.tenant, f.run_at, statement_timestamp()) AS d
 WHERE d.late IS NOT NULL
 GROUP BY f.queue
 ORDER BY jobs DESC, f.queue;
