-- name: reset_schedule
-- Make a schedule what the code says again. is_reset is false for one that no code has declared.
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
