-- name: look_at_turn
-- When it is a waiting job's turn: what holds its lane back, who takes turns with it, what is before it there.
-- $1 is the job, $2 how far to count.
SELECT s.paused_at, w.open AS lane_open, w.changes_in AS lane_changes_in, v.open AS queue_open,
       v.changes_in AS queue_changes_in, o.lanes, h.jobs + e.jobs AS ahead
  FROM :"schema".job AS j
  LEFT JOIN :"schema".queue AS q ON q.name = j.queue
  LEFT JOIN :"schema".lane_setting AS s ON s.queue = j.queue AND s.lane = split_part(j.lane, E'\x1f', 1)
 CROSS JOIN LATERAL :"schema".window_v1(s.windows, statement_timestamp()) AS w
 CROSS JOIN LATERAL :"schema".window_v1(q.windows, statement_timestamp()) AS v
 CROSS JOIN LATERAL (
       SELECT count(DISTINCT split_part(l.lane, E'\x1f', 1)) AS lanes
         FROM :"schema".scan_lines_v1(j.queue, '', $2::integer + 1) AS l
        WHERE split_part(l.lane, E'\x1f', 1) <> split_part(j.lane, E'\x1f', 1)) AS o
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS b
                WHERE b.state = 'ready' AND b.queue = j.queue AND b.lane = j.lane AND b.priority > j.priority
                LIMIT $2::integer + 1) AS few) AS h
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS b
                WHERE b.state = 'ready' AND b.queue = j.queue AND b.lane = j.lane AND b.priority = j.priority
                  AND (b.ready_at, b.id) < (j.ready_at, j.id)
                LIMIT $2::integer + 1) AS few) AS e
 WHERE j.id = $1::bigint;
