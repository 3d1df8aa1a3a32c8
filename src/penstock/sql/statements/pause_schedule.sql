-- name: pause_schedule
-- Let a schedule fire no more, until it is resumed.
WITH changed AS (
    UPDATE :"schema".schedule AS s SET paused_at = coalesce(s.paused_at, statement_timestamp()) WHERE s.name = $1::text
    RETURNING s.name, s.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'pause_schedule', c.tenant, c.name FROM changed AS c
)
SELECT name FROM changed;
