-- name: list_schedules
-- The schedules by their names, or the one that is named ($1); from the one behind $2 on. A schedule from code is
-- active while a living worker declares it, one made at run time always.
SELECT s.name, s.tenant, s.cron, s.every, s.timezone, s.jitter, s.overlap, s.catch_up, s.on_start, s.wins,
       CASE WHEN s.declared IS NULL THEN 'runtime' ELSE 'code' END AS source, s.edited_at, s.paused_at,
       s.declared IS NULL OR EXISTS (
           SELECT FROM :"schema".lease AS l
            WHERE l.expires_at > statement_timestamp() AND l.info -> 'schedules' ? s.name) AS is_active,
       s.request ->> 'task' AS task, coalesce(s.request ->> 'queue', 'default') AS queue,
       coalesce(s.request -> 'args', '{}')::text AS args,
       s.anchor, s.done_until, statement_timestamp() AS seen_at,
       f.tick AS last_tick, f.job::text AS last_job, f.why AS last_why
  FROM :"schema".schedule AS s
  LEFT JOIN LATERAL (
       SELECT f.tick, f.job, f.why FROM :"schema".schedule_fire AS f
        WHERE f.schedule = s.name ORDER BY f.tick DESC LIMIT 1) AS f ON true
 WHERE ($1::text IS NULL OR s.name = $1::text) AND ($2::text IS NULL OR s.name > $2::text)
 ORDER BY s.name
 LIMIT $3::integer;
