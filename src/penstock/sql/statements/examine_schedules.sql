-- name: examine_schedules
-- Schedules with something the matter: no living worker declares it or has its task, or its tick is long due.
-- overdue is the seconds since then. Those that are paused are meant to rest. $1 is the most to tell of.
WITH known AS MATERIALIZED (
    SELECT l.info -> 'schedules' AS schedules, l.info -> 'tasks' AS tasks FROM :"schema".lease AS l
     WHERE l.expires_at > clock_timestamp() AND l.kind = 'worker'
), seen AS (
    SELECT s.name, s.request ->> 'task' AS task,
           s.declared IS NULL OR EXISTS (SELECT FROM known AS k WHERE k.schedules ? s.name) AS is_active,
           -- A worker that names no tasks is none of ours, and may have any.
           EXISTS (SELECT FROM known AS k WHERE (k.tasks ? (s.request ->> 'task')) IS NOT FALSE) AS has_task,
           coalesce(extract(epoch FROM clock_timestamp() - s.next_at), 0)::double precision AS overdue
      FROM :"schema".schedule AS s
     WHERE s.paused_at IS NULL AND EXISTS (SELECT FROM known)
)
SELECT name, task, is_active, has_task, overdue FROM seen
 WHERE NOT is_active OR NOT has_task OR overdue > 0
 ORDER BY name
 LIMIT $1::integer;
