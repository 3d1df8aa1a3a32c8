-- name: resume_schedule
-- Let a schedule fire again, from its next tick on.
WITH changed AS (
    UPDATE :"schema".schedule AS s SET paused_at = NULL WHERE s.name = $1::text
    RETURNING s.name, s.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'resume_schedule', c.tenant, c.name FROM changed AS c
)
SELECT name FROM changed;
