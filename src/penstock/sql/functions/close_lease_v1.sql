-- The end of a worker session: what still runs goes back to ready at once, then the lease is gone.
CREATE FUNCTION :"schema".close_lease_v1(p_lease bigint, p_now timestamptz DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_released integer;
BEGIN
    DELETE FROM leader AS r WHERE r.lease = p_lease;
    IF FOUND THEN
        PERFORM pg_notify(current_schema() || '.leader', 'vacant');
    END IF;
    v_released := release_v1(p_lease, '{}', p_now);
    DELETE FROM "grant" AS g WHERE g.lease = p_lease;
    DELETE FROM signal AS s WHERE s.lease = p_lease;
    DELETE FROM lease AS l WHERE l.id = p_lease;
    RETURN v_released;
END
$$;
