-- name: list_schedules
-- List schedules by name, or only the one named $1; a page begins after $2. A schedule from code is active while a running
-- worker declares it; others always are.
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

-- name: set_schedule
-- Change the fields in $2 of a schedule; the others stay. A new schedule needs a request and a cron or an interval: without
-- them nothing is created and no row is returned. An existing one keeps the parts of its request that `keep` names.
WITH changed AS (
    UPDATE :"schema".schedule AS s
       SET (tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request) = (
               SELECT CASE WHEN k.parts ? 'tenant' THEN s.tenant ELSE n.tenant END,
                      n.cron, n.every, n.timezone, n.jitter, n.overlap, n.catch_up, n.on_start,
                      (SELECT coalesce(jsonb_object_agg(p.name, p.value), '{}')
                         FROM (SELECT e.key AS name, e.value FROM jsonb_each(n.request) AS e WHERE NOT k.parts ? e.key
                               UNION ALL
                               SELECT e.key, e.value FROM jsonb_each(s.request) AS e WHERE k.parts ? e.key) AS p)
                 FROM jsonb_populate_record(s, $2::text::jsonb) AS n,
                      coalesce($2::text::jsonb -> 'keep', '[]') AS k (parts)),
           edited_at = CASE WHEN s.declared IS NOT NULL THEN statement_timestamp() END
     WHERE s.name = $1::text
    RETURNING s.name, s.tenant
), made AS (
    INSERT INTO :"schema".schedule (name, tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request)
    SELECT $1::text, coalesce(n.tenant, ''), n.cron, n.every, coalesce(n.timezone, 'UTC'), coalesce(n.jitter, 0),
           coalesce(n.overlap, 'skip'), coalesce(n.catch_up, 'skip'), coalesce(n.on_start, false), n.request
      FROM jsonb_populate_record(NULL:::"schema".schedule, $2::text::jsonb) AS n
     WHERE n.request IS NOT NULL AND coalesce(n.cron, n.every::text) IS NOT NULL
       AND NOT EXISTS (SELECT FROM changed)
    ON CONFLICT (name) DO NOTHING
    RETURNING name, tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($3::text, session_user), 'set_schedule', c.tenant, c.name, $2::text::jsonb - ARRAY['request', 'keep']
      FROM (SELECT name, tenant FROM changed UNION ALL SELECT name, tenant FROM made) AS c
)
SELECT name FROM changed UNION ALL SELECT name FROM made;

-- name: remove_schedule
-- Remove a schedule and the results of its ticks; its jobs stay.
WITH removed AS (
    DELETE FROM :"schema".schedule AS s WHERE s.name = $1::text RETURNING s.name, s.tenant
), forgotten AS (
    DELETE FROM :"schema".schedule_fire AS f USING removed AS r WHERE f.schedule = r.name
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'remove_schedule', r.tenant, r.name FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;

-- name: pause_schedule
-- Stop a schedule from firing until it is resumed.
WITH changed AS (
    UPDATE :"schema".schedule AS s SET paused_at = coalesce(s.paused_at, statement_timestamp()) WHERE s.name = $1::text
    RETURNING s.name, s.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'pause_schedule', c.tenant, c.name FROM changed AS c
)
SELECT name FROM changed;

-- name: resume_schedule
-- Let a schedule fire again from its next tick on.
WITH changed AS (
    UPDATE :"schema".schedule AS s SET paused_at = NULL WHERE s.name = $1::text
    RETURNING s.name, s.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'resume_schedule', c.tenant, c.name FROM changed AS c
)
SELECT name FROM changed;

-- name: reset_schedule
-- Reset a schedule to what the code declares. is_reset is false if no code has declared it.
WITH found AS (
    SELECT s.name, s.declared IS NOT NULL AS is_reset FROM :"schema".schedule AS s WHERE s.name = $1::text
), changed AS (
    UPDATE :"schema".schedule AS s
       SET (tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request) = (
               SELECT n.tenant, n.cron, n.every, n.timezone, n.jitter, n.overlap, n.catch_up, n.on_start, n.request
                 FROM jsonb_populate_record(s, s.declared) AS n),
           edited_at = NULL
     WHERE s.name = $1::text AND s.declared IS NOT NULL
    RETURNING s.name, s.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'reset_schedule', c.tenant, c.name FROM changed AS c
)
SELECT name, is_reset FROM found;

-- name: sync_schedules
-- Store the schedules that the code declares. Returns the names of those that have changed.
SELECT name FROM :"schema".sync_schedules_v1($1::text::jsonb) AS name;

-- name: list_due_schedules
-- Return the schedules that are due, and when the next one is.
SELECT :"schema".list_due_schedules_v1($1::integer, $2::text[])::text;

-- name: list_fires
-- List the results of a schedule's last ticks, newest first; a page begins after the tick $3.
WITH fires AS MATERIALIZED (
    SELECT f.tick, f.kind, f.ticks, f.job, f.why, f.fired_at FROM :"schema".schedule_fire AS f
     WHERE f.schedule = $1::text AND ($3::timestamptz IS NULL OR f.tick < $3::timestamptz) ORDER BY f.tick DESC LIMIT $2::integer
)
SELECT f.tick, f.kind, f.ticks, f.job::text AS job, f.why, f.fired_at, j.state
  FROM fires AS f
  LEFT JOIN :"schema".find_jobs_v1(ARRAY(SELECT o.job FROM fires AS o WHERE o.job IS NOT NULL)) AS j ON j.id = f.job
 ORDER BY f.tick DESC;
