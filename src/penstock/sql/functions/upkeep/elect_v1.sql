-- Become or stay the leader of a role, unless another lease holds it for a term that has not expired.
CREATE FUNCTION :"schema".elect_v1(
    p_role text, p_lease bigint, p_ttl double precision, p_now timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO leader AS r (role, lease, elected_at, expires_at)
    SELECT p_role, p_lease, v_now, v_now + make_interval(secs => p_ttl)
     WHERE EXISTS (SELECT FROM lease AS l WHERE l.id = p_lease AND l.expires_at > v_now)
    ON CONFLICT (role) DO UPDATE
       SET lease = excluded.lease, expires_at = excluded.expires_at,
           elected_at = CASE WHEN r.lease = excluded.lease THEN r.elected_at ELSE excluded.elected_at END
     WHERE r.lease = excluded.lease OR r.expires_at <= v_now
        OR NOT EXISTS (SELECT FROM lease AS l WHERE l.id = r.lease AND l.expires_at > v_now);
    RETURN FOUND;
END
$$;
