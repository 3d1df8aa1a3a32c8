-- Whether the caller may search this tenant, as row level security would decide. It is called by a function that runs as
-- the owner of the tables, so it looks at the role that has logged in, or that was set since then.
CREATE FUNCTION :"schema".search_allowed_v1(p_tenant text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
AS $$
    SELECT NOT EXISTS (SELECT FROM tenant AS t WHERE t.tenant = p_tenant AND t.deleted_at IS NOT NULL)
       AND (NOT c.relrowsecurity OR coalesce(p_tenant = nullif(current_setting('penstock.tenant', true), ''), false)
            OR pg_has_role(coalesce(nullif(current_setting('role', true), 'none'), session_user), c.relowner, 'USAGE'))
      FROM pg_class AS c WHERE c.oid = 'chunk'::regclass
$$;
