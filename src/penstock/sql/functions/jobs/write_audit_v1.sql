-- Write to the audit what somebody did to many jobs at once: who (the database role, if nobody is named), what, and to
-- how many. Returns the tenant of the entry: in a transaction of a tenant it is that tenant, whatever the caller passes.
-- With row level security this function runs as the owner.
CREATE FUNCTION :"schema".write_audit_v1(p_by text, p_action text, p_tenant text, p_target text, p_detail jsonb)
RETURNS text
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    INSERT INTO audit (actor, action, tenant, target, detail)
    SELECT coalesce(p_by, session_user), p_action,
           coalesce(nullif(current_setting('penstock.tenant', true), ''), p_tenant, ''), p_target, p_detail
    RETURNING tenant
$$;
