-- name: examine_overtime_jobs
-- Running jobs that should have been ended: past their timeout by more than a grace. $1 is the grace in
-- seconds, $2 the most to look at.
SELECT o.task, o.worker, count(*)::integer AS jobs, min(o.id) AS example, max(o.over) AS seconds
  FROM (
    SELECT j.id, j.task, l.worker,
           extract(epoch FROM clock_timestamp() - j.attempted_at)::double precision - j.timeout AS over
      FROM (SELECT r.id, r.task, r.lease, r.attempted_at, r.timeout
              FROM :"schema".job AS r WHERE r.state = 'running' AND r.lease > 0 LIMIT $2) AS j
      LEFT JOIN :"schema".lease AS l ON l.id = j.lease
  ) AS o
 WHERE o.over > $1::double precision
 GROUP BY o.task, o.worker
 ORDER BY jobs DESC
 LIMIT 20;
