-- The end of a worker session, as in close_lease_v1; who waits for its slots is told.
CREATE FUNCTION :"schema".close_lease_v2(p_lease bigint, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_keys text[] := ARRAY(SELECT g.key FROM "grant" AS g WHERE g.lease = p_lease);
BEGIN
    -- Who asks at this moment is either seen here, or sees that the slots are free.
    PERFORM lock_grants_v1(v_keys);
    PERFORM pg_notify(current_schema() || '.grants', k.key)
       FROM unnest(v_keys) AS k (key)
      WHERE EXISTS (SELECT FROM "grant" AS g JOIN lease AS l ON l.id = g.lease AND l.expires_at > v_now
                     WHERE g.key = k.key AND g.lease <> p_lease AND g.wanted > g.slots);
    RETURN close_lease_v1(p_lease, p_now);
END
$$;
