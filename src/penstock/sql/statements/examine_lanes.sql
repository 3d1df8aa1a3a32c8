-- name: examine_lanes
-- Every lane in which jobs wait, with what may hold it: a pause, closed windows, a limit that lets nothing run.
-- $1 is how many lines to look at, of each queue and in all; $2 how far to count the jobs without a lane.
-- A skip scan of the ready index finds queues and lines: one step a line, not one a job.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane, s.ready_at
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lines_v1(n.queue, '', $1::integer) AS s
     WHERE n.queue IS NOT NULL
     LIMIT $1::integer
)
SELECT l.queue, l.lane, extract(epoch FROM clock_timestamp() - l.oldest)::double precision AS seconds,
       extract(epoch FROM clock_timestamp() - s.paused_at)::double precision AS paused,
       w.open AS lane_open, w.changes_in AS lane_changes_in, v.open AS queue_open, v.changes_in AS queue_changes_in,
       coalesce(q.fair, false) AS fair,
       CASE WHEN q.fair AND l.lane = '' THEN (
           SELECT count(*) FROM (SELECT FROM :"schema".job AS j
                                  WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = ''
                                  ORDER BY j.priority DESC, j.ready_at, j.id LIMIT $2::integer) AS few)
       END AS laneless,
       CASE WHEN EXISTS (SELECT FROM :"schema".limit_setting AS z WHERE z.slots = 0 OR z.rate = 0) THEN (
           SELECT k.key
             FROM (VALUES ('queue:' || l.queue), ('lane:' || l.queue || ':' || split_part(l.lane, E'\x1f', 1))
                   UNION ALL SELECT unnest((string_to_array(l.lane, E'\x1f'))[2:])) AS k (key)
            CROSS JOIN LATERAL :"schema".limit_v1(k.key) AS z
            WHERE z.slots = 0 OR z.rate = 0
            LIMIT 1)
       END AS shut_by
  FROM (SELECT i.queue, i.lane, min(i.ready_at) AS oldest FROM line AS i GROUP BY i.queue, i.lane) AS l
  LEFT JOIN :"schema".queue AS q ON q.name = l.queue
  LEFT JOIN :"schema".lane_setting AS s ON s.queue = l.queue AND s.lane = split_part(l.lane, E'\x1f', 1)
 CROSS JOIN LATERAL :"schema".window_v1(s.windows, statement_timestamp()) AS w
 CROSS JOIN LATERAL :"schema".window_v1(q.windows, statement_timestamp()) AS v
 ORDER BY l.queue, l.lane;
