-- name: list_tenants
-- The tenants that somebody has set something for, from a name on; those of one plan, or all.
SELECT tenant AS name, plan, late_after
  FROM :"schema".tenant_setting
 WHERE ($1::text IS NULL OR plan = $1::text) AND ($2::text IS NULL OR tenant > $2::text)
 ORDER BY tenant LIMIT $3::integer;
