-- End a worker's session: notify those who wait for its slots, return its running jobs to ready, delete the lease.
CREATE FUNCTION :"schema".close_lease_v1(p_lease bigint, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now      timestamptz := coalesce(p_now, statement_timestamp());
    v_keys     text[] := ARRAY(SELECT g.key FROM "grant" AS g WHERE g.lease = p_lease);
    v_released integer;
BEGIN
    -- A worker that requests slots at this moment is either notified here, or sees that the slots are free.
    PERFORM lock_grants_v1(v_keys);
    PERFORM pg_notify(current_schema() || '.grants', k.key)
       FROM unnest(v_keys) AS k (key)
      WHERE EXISTS (SELECT FROM "grant" AS g JOIN lease AS l ON l.id = g.lease AND l.expires_at > v_now
                     WHERE g.key = k.key AND g.lease <> p_lease AND g.wanted > g.slots);
    DELETE FROM leader AS r WHERE r.lease = p_lease;
    IF FOUND THEN
        PERFORM pg_notify(current_schema() || '.leader', 'vacant');
    END IF;
    v_released := release_jobs_v1(p_lease, '{}', p_now);
    DELETE FROM "grant" AS g WHERE g.lease = p_lease;
    DELETE FROM signal AS s WHERE s.lease = p_lease;
    DELETE FROM lease AS l WHERE l.id = p_lease;
    RETURN v_released;
END
$$;
