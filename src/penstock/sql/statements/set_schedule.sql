-- name: set_schedule
-- Change a schedule: what is given ($2), while the rest stays. A new one needs a request and a cron or an interval:
-- without them nothing is made, and nothing comes back. An existing one keeps the parts of its request in `keep`.
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
