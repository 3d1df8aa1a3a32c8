-- name: examine_idle_grants
-- Limits whose slots are waited for although no job runs with them. $1 is the most running jobs to look at: of
-- more than that nothing is said.
WITH run AS MATERIALIZED (
    SELECT j.queue, j.lane, j.task FROM :"schema".job AS j WHERE j.state = 'running'
     ORDER BY j.lease LIMIT $1::integer + 1
), used AS MATERIALIZED (
    SELECT 'queue:' || r.queue AS key FROM run AS r
    UNION SELECT 'lane:' || r.queue || ':' || split_part(r.lane, E'\x1f', 1) FROM run AS r
    UNION SELECT 'task:' || r.task FROM run AS r
    UNION SELECT unnest((string_to_array(r.lane, E'\x1f'))[2:]) FROM run AS r
)
SELECT g.key, max(l.slots) AS slots, sum(g.slots)::integer AS granted,
       array_agg(e.worker ORDER BY e.worker) FILTER (WHERE g.slots > 0) AS holders,
       array_agg(e.worker ORDER BY e.worker) FILTER (WHERE g.wanted > g.slots) AS waiters
  FROM :"schema"."grant" AS g
  JOIN :"schema".lease AS e ON e.id = g.lease AND e.expires_at > statement_timestamp()
 CROSS JOIN LATERAL :"schema".limit_v1(g.key) AS l
 WHERE l.slots > 0 AND (SELECT count(*) FROM run) <= $1::integer
   AND NOT EXISTS (SELECT FROM used AS u WHERE u.key = g.key)
 GROUP BY g.key
HAVING bool_or(g.wanted > g.slots)
 ORDER BY g.key
 LIMIT 100;
