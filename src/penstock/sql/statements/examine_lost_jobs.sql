-- name: examine_lost_jobs
-- Running jobs with no living lease behind them, by worker. $1 is the most to look at.
-- Like the rescue it scans the gaps between the ids of living leases, not the entries of the living.
WITH living AS (
    SELECT l.id FROM :"schema".lease AS l WHERE l.expires_at > clock_timestamp()
), gap AS (
    SELECT coalesce(lag(l.id) OVER (ORDER BY l.id), 0) AS low, l.id AS high FROM living AS l
    UNION ALL
    SELECT coalesce(max(l.id), 0), 9223372036854775807 FROM living AS l
), lost AS (
    SELECT j.id, j.lease, j.attempted_at
      FROM gap AS g
     CROSS JOIN LATERAL (
           SELECT r.id, r.lease, r.attempted_at FROM :"schema".job AS r
            WHERE r.state = 'running' AND r.lease > g.low AND r.lease < g.high
            LIMIT $1) AS j
     LIMIT $1
)
SELECT d.worker, count(*)::integer AS jobs, min(l.id) AS example,
       -- Of a lease that was swept away nobody knows the end: the attempt's beginning is the next best.
       max(extract(epoch FROM clock_timestamp() - coalesce(d.expires_at, l.attempted_at)))::double precision AS seconds
  FROM lost AS l
  LEFT JOIN :"schema".lease AS d ON d.id = l.lease
 GROUP BY d.worker
 ORDER BY jobs DESC;
