-- Return the key of the advisory lock for one tenant's events with one name.
CREATE FUNCTION :"schema".event_lock_key_v1(p_tenant text, p_name text) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
AS $$
    SELECT hashtextextended(format('%I event %L %L', current_schema(), p_tenant, p_name), 0);
$$;
