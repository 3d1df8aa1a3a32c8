-- name: remove_tenant
-- Forget what was set for a tenant; its jobs stay.
WITH removed AS (
    DELETE FROM :"schema".tenant_setting AS t WHERE t.tenant = $1::text RETURNING t.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target)
    SELECT coalesce($2::text, session_user), 'remove_tenant', r.tenant, r.tenant FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;
