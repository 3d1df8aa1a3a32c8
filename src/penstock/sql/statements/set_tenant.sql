-- name: set_tenant
-- Change what holds for a tenant: what is given ($2), while the rest stays. No row if there is no such plan.
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
