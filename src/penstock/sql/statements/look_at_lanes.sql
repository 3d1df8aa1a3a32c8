-- name: look_at_lanes
-- The lanes of a queue that have ready or running jobs or settings, the largest first.
-- $1 is the queue, $2 the lane to begin with, $3 how many lines to find, $4 how many lanes to show, $5 how far
-- to count the jobs of one, $6 how many jobs to count before it is known which lanes are the largest, $7 how
-- many running jobs to look at. A skip scan finds the lanes: one step a line, not one a job.
WITH line AS MATERIALIZED (
    SELECT s.lane, s.priority, s.ready_at FROM :"schema".scan_lines_v1($1::text, $2::text, $3::integer + 1) AS s
), scanned AS (
    SELECT count(*) AS lines, count(*) <= $3::integer AS is_whole, max(l.lane) AS last FROM line AS l
), run AS MATERIALIZED (
    SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j WHERE j.state = 'running'
     ORDER BY j.lease LIMIT $7::integer + 1
), running AS (
    SELECT r.lane, count(*) AS jobs, count(d.late) AS late
      FROM run AS r
     CROSS JOIN LATERAL :"schema".late_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d
     WHERE r.queue = $1::text AND r.lane >= $2::text
     GROUP BY r.lane
), lane AS (
    SELECT l.lane, min(l.ready_at) AS oldest FROM line AS l CROSS JOIN scanned AS c
     -- The last lane of a scan that was cut may have been cut itself.
     WHERE c.is_whole OR l.lane < c.last OR c.lines = 1
     GROUP BY l.lane
), known AS (
    SELECT u.lane, max(u.oldest) AS oldest
      FROM (SELECT l.lane, l.oldest FROM lane AS l
            UNION ALL SELECT r.lane, NULL FROM running AS r
            UNION ALL (SELECT s.lane, NULL FROM :"schema".lane_setting AS s
                        WHERE s.queue = $1::text AND s.lane >= $2::text AND NOT EXISTS (
                              SELECT FROM lane AS l WHERE split_part(l.lane, E'\x1f', 1) = s.lane)
                        ORDER BY s.lane LIMIT 1000)) AS u
     GROUP BY u.lane
), largest AS (
    SELECT k.lane, k.oldest, f.jobs AS about
      FROM known AS k
     CROSS JOIN (SELECT least(greatest($6::integer / greatest(count(*), 1), 1), $5::integer) AS most FROM lane) AS m
     CROSS JOIN LATERAL (
           SELECT count(*) AS jobs
             FROM (SELECT FROM :"schema".job AS j
                    WHERE j.state = 'ready' AND j.queue = $1::text AND j.lane = k.lane
                    ORDER BY j.priority DESC, j.ready_at, j.id LIMIT m.most) AS few) AS f
     ORDER BY f.jobs DESC, k.oldest, k.lane
     LIMIT $4::integer
)
SELECT g.lane, c.jobs AS ready, c.late + coalesce(x.late, 0) AS late, coalesce(x.jobs, 0) AS running,
       extract(epoch FROM statement_timestamp() - g.oldest)::double precision AS waited,
       coalesce(s.weight, p.weight, 1) AS weight, s.paused_at,
       w.open AS lane_open, w.changes_in AS lane_changes_in, v.open AS queue_open, v.changes_in AS queue_changes_in,
       (SELECT count(*) FROM known) AS lanes, n.is_whole, CASE WHEN NOT n.is_whole THEN n.last END AS following,
       (SELECT count(*) FROM run) AS running_seen
  FROM largest AS g
 CROSS JOIN scanned AS n
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs, count(d.late) AS late
         FROM (SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
                WHERE j.state = 'ready' AND j.queue = $1::text AND j.lane = g.lane
                ORDER BY j.priority DESC, j.ready_at, j.id LIMIT $5::integer + 1) AS r
        CROSS JOIN LATERAL :"schema".late_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d) AS c
  LEFT JOIN :"schema".queue AS q ON q.name = $1::text
  LEFT JOIN running AS x ON x.lane = g.lane
  LEFT JOIN :"schema".lane_setting AS s ON s.queue = $1::text AND s.lane = split_part(g.lane, E'\x1f', 1)
  LEFT JOIN :"schema".tenant_setting AS t
         ON t.tenant = split_part(g.lane, E'\x1f', 1) AND q.fair AND coalesce(q.lane_key, 'tenant') = 'tenant'
  LEFT JOIN :"schema".plan AS p ON p.name = t.plan
 CROSS JOIN LATERAL :"schema".window_v1(s.windows, statement_timestamp()) AS w
 CROSS JOIN LATERAL :"schema".window_v1(q.windows, statement_timestamp()) AS v
 ORDER BY c.jobs DESC, g.oldest, g.lane;
