-- Renew a lease, and return the signals for its worker. An expired lease is never renewed, because its jobs may
-- already run elsewhere.
CREATE FUNCTION :"schema".heartbeat_v1(
    p_lease bigint, p_ttl double precision, p_info jsonb DEFAULT NULL, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (alive boolean, signals jsonb)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_signals jsonb;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE lease AS l
       SET renewed_at = v_now, expires_at = v_now + make_interval(secs => p_ttl),
           info = CASE WHEN p_info IS NULL THEN l.info ELSE l.info || p_info END
     WHERE l.id = p_lease AND l.expires_at > v_now;
    IF NOT FOUND THEN
        RETURN QUERY SELECT false, '[]'::jsonb;
        RETURN;
    END IF;
    WITH taken AS (
        DELETE FROM signal AS s WHERE s.lease = p_lease RETURNING s.job, s.token, s.kind
    )
    SELECT coalesce(jsonb_agg(jsonb_build_array(t.job, t.token, t.kind)), '[]') INTO v_signals FROM taken AS t;
    RETURN QUERY SELECT true, v_signals;
END
$$;
