-- name: remove_plan
-- Take a plan away, unless tenants have it: their number says so.
WITH held AS (
    SELECT count(*) AS tenants FROM :"schema".tenant_setting AS t WHERE t.plan = $1::text
), removed AS (
    DELETE FROM :"schema".plan AS p USING held AS h WHERE p.name = $1::text AND h.tenants = 0 RETURNING p.name
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target)
    SELECT coalesce($2::text, session_user), 'remove_plan', r.name FROM removed AS r
)
SELECT EXISTS (SELECT FROM removed) AS removed, h.tenants FROM held AS h;
