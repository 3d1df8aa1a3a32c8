-- name: set_queue
-- Change the settings in $2 of a queue; the others stay. A time zone that Postgres does not know is an error.
WITH changed AS (
    INSERT INTO :"schema".queue AS q (name, fair, lane_key, ageing, windows, late_after)
    SELECT $1::text, coalesce(n.fair, false), n.lane_key, n.ageing, n.windows, n.late_after
      FROM jsonb_populate_record(NULL:::"schema".queue, $2::text::jsonb) AS n
     WHERE statement_timestamp() AT TIME ZONE coalesce($2::text::jsonb -> 'windows' ->> 'timezone', 'UTC') IS NOT NULL
    ON CONFLICT (name) DO UPDATE
       SET (fair, lane_key, ageing, windows, late_after) = (
               SELECT n.fair, n.lane_key, n.ageing, n.windows, n.late_after
                 FROM jsonb_populate_record(q, $2::text::jsonb) AS n),
           updated_at = statement_timestamp()
    RETURNING name, fair, lane_key, ageing, windows, late_after, paused_at
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($3::text, session_user), 'set_queue', c.name, $2::text::jsonb FROM changed AS c
)
SELECT name, fair, coalesce(lane_key, 'tenant') AS lane_key, ageing, windows::text AS windows, late_after,
       paused_at IS NOT NULL AS paused
  FROM changed;

-- name: list_queue_settings
-- List the settings of queues that have any.
SELECT name, fair, coalesce(lane_key, 'tenant') AS lane_key, ageing, windows::text AS windows, late_after,
       paused_at IS NOT NULL AS paused
  FROM :"schema".queue ORDER BY name;

-- name: pause_queue
-- Stop workers from claiming from a queue. If $2 names who did it, that is written to the audit.
WITH paused AS (
    INSERT INTO :"schema".queue AS q (name, paused_at) VALUES ($1::text, statement_timestamp())
    ON CONFLICT (name) DO UPDATE
       SET paused_at = coalesce(q.paused_at, excluded.paused_at), updated_at = statement_timestamp()
    RETURNING q.name
)
SELECT :"schema".write_audit_v1($2::text, 'pause', NULL, p.name, NULL) FROM paused AS p WHERE $2::text IS NOT NULL;

-- name: resume_queue
-- Let workers claim from a queue again, and wake them. If $2 names who did it, that is written to the audit.
WITH resumed AS (
    UPDATE :"schema".queue AS q SET paused_at = NULL, updated_at = statement_timestamp()
     WHERE q.name = $1::text AND q.paused_at IS NOT NULL
    RETURNING q.name
)
SELECT :"schema".notify_ready_v1(r.name, NULL, 0::smallint, statement_timestamp()),
       CASE WHEN $2::text IS NOT NULL THEN :"schema".write_audit_v1($2::text, 'resume', NULL, r.name, NULL) END AS noted
  FROM resumed AS r;

-- name: set_lane
-- Change the settings in $3 of a lane; the others stay. A time zone that Postgres does not know is an error.
WITH changed AS (
    INSERT INTO :"schema".lane_setting AS l (queue, lane, weight, windows, late_after, paused_at)
    SELECT $1::text, $2::text, coalesce(n.weight, 1), n.windows, n.late_after,
           CASE WHEN $3::text::jsonb ->> 'paused' = 'true' THEN statement_timestamp() END
      FROM jsonb_populate_record(NULL:::"schema".lane_setting, $3::text::jsonb) AS n
     WHERE statement_timestamp() AT TIME ZONE coalesce($3::text::jsonb -> 'windows' ->> 'timezone', 'UTC') IS NOT NULL
    ON CONFLICT (queue, lane) DO UPDATE
       SET (weight, windows, late_after) = (
               SELECT n.weight, n.windows, n.late_after FROM jsonb_populate_record(l, $3::text::jsonb) AS n),
           paused_at = CASE $3::text::jsonb ->> 'paused'
                            WHEN 'true' THEN coalesce(l.paused_at, statement_timestamp())
                            WHEN 'false' THEN NULL ELSE l.paused_at END,
           updated_at = statement_timestamp()
    RETURNING queue, lane, weight, windows, late_after, paused_at
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($4::text, session_user), 'set_lane', c.queue || ':' || c.lane, $3::text::jsonb FROM changed AS c
)
SELECT queue, lane, weight, windows::text AS windows, late_after, paused_at IS NOT NULL AS paused FROM changed;

-- name: list_lane_settings
-- List the settings of a queue's lanes that have any: a page that begins after a name.
SELECT queue, lane, weight, windows::text AS windows, late_after, paused_at IS NOT NULL AS paused
  FROM :"schema".lane_setting
 WHERE queue = $1::text AND ($2::text IS NULL OR lane > $2::text)
 ORDER BY lane LIMIT $3::integer;

-- name: remove_lane
-- Remove the settings of a lane. Its jobs stay, and are claimed like those of any other lane.
WITH removed AS (
    DELETE FROM :"schema".lane_setting AS l WHERE l.queue = $1::text AND l.lane = $2::text RETURNING l.queue, l.lane
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target)
    SELECT coalesce($3::text, session_user), 'remove_lane', r.queue || ':' || r.lane FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;

-- name: set_plan
-- Change the settings in $2 of a plan; the others stay.
WITH changed AS (
    INSERT INTO :"schema".plan AS p (name, priority, weight, late_after)
    SELECT $1::text, coalesce(n.priority, 0), coalesce(n.weight, 1), n.late_after
      FROM jsonb_populate_record(NULL:::"schema".plan, $2::text::jsonb) AS n
    ON CONFLICT (name) DO UPDATE
       SET (priority, weight, late_after) = (
               SELECT n.priority, n.weight, n.late_after FROM jsonb_populate_record(p, $2::text::jsonb) AS n),
           updated_at = statement_timestamp()
    RETURNING name, priority, weight, late_after
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($3::text, session_user), 'set_plan', c.name, $2::text::jsonb FROM changed AS c
)
SELECT name, priority, weight, late_after FROM changed;

-- name: list_plans
-- List plans by name.
SELECT name, priority, weight, late_after FROM :"schema".plan ORDER BY name;

-- name: remove_plan
-- Remove a plan, unless tenants have it. Returns how many have it.
WITH held AS (
    SELECT count(*) AS tenants FROM :"schema".tenant_setting AS t WHERE t.plan = $1::text
), removed AS (
    DELETE FROM :"schema".plan AS p USING held AS h WHERE p.name = $1::text AND h.tenants = 0 RETURNING p.name
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target)
    SELECT coalesce($2::text, session_user), 'remove_plan', r.name FROM removed AS r
)
SELECT EXISTS (SELECT FROM removed) AS removed, h.tenants FROM held AS h;

-- name: set_tenant
-- Change the settings in $2 of a tenant; the others stay. Returns no row if the plan does not exist.
WITH changed AS (
    INSERT INTO :"schema".tenant_setting AS t (tenant, plan, late_after)
    SELECT $1::text, n.plan, n.late_after
      FROM jsonb_populate_record(NULL:::"schema".tenant_setting, $2::text::jsonb) AS n
     WHERE n.plan IS NULL OR EXISTS (SELECT FROM :"schema".plan AS p WHERE p.name = n.plan)
    ON CONFLICT (tenant) DO UPDATE
       SET (plan, late_after) = (
               SELECT n.plan, n.late_after FROM jsonb_populate_record(t, $2::text::jsonb) AS n),
           updated_at = statement_timestamp()
    RETURNING tenant, plan, late_after
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($3::text, session_user), 'set_tenant', c.tenant, c.tenant, $2::text::jsonb FROM changed AS c
)
SELECT tenant AS name, plan, late_after FROM changed;

-- name: list_tenants
-- List the settings of tenants that have any, of one plan or all: a page that begins after a name.
SELECT tenant AS name, plan, late_after
  FROM :"schema".tenant_setting
 WHERE ($1::text IS NULL OR plan = $1::text) AND ($2::text IS NULL OR tenant > $2::text)
 ORDER BY tenant LIMIT $3::integer;

-- name: remove_tenant
-- Remove the settings of a tenant; its jobs stay.
WITH removed AS (
    DELETE FROM :"schema".tenant_setting AS t WHERE t.tenant = $1::text RETURNING t.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'remove_tenant', r.tenant, r.tenant FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;

-- name: set_retention
-- Set for how many days history of a state is kept: of all jobs, of a queue, of a tenant or of both.
WITH changed AS (
    INSERT INTO :"schema".retention AS r (state, days, queue, tenant)
    VALUES ($1::text, $2::integer, $3::text, $4::text)
    ON CONFLICT (state, queue, tenant) DO UPDATE SET days = excluded.days
    RETURNING r.state, r.days, r.queue, r.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($5::text, session_user), 'set_retention', c.tenant, c.state,
           jsonb_build_object('queue', c.queue, 'days', c.days)
      FROM changed AS c
)
SELECT state, days, queue, tenant FROM changed;

-- name: list_retentions
-- List the rules of how long history is kept, general ones first.
SELECT state, days, queue, tenant FROM :"schema".retention ORDER BY queue <> '', tenant <> '', state, queue, tenant;

-- name: remove_retention
-- Remove a rule of how long history is kept.
WITH removed AS (
    DELETE FROM :"schema".retention AS r
     WHERE r.state = $1::text AND r.queue = $2::text AND r.tenant = $3::text
    RETURNING r.state, r.days, r.queue, r.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($4::text, session_user), 'remove_retention', r.tenant, r.state,
           jsonb_build_object('queue', r.queue, 'days', r.days)
      FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;
