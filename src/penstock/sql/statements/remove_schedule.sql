-- name: remove_schedule
-- Remove a schedule and what is known of its ticks; its jobs stay.
WITH removed AS (
    DELETE FROM :"schema".schedule AS s WHERE s.name = $1::text RETURNING s.name, s.tenant
), forgotten AS (
    DELETE FROM :"schema".schedule_fire AS f USING removed AS r WHERE f.schedule = r.name
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'remove_schedule', r.tenant, r.name FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;
