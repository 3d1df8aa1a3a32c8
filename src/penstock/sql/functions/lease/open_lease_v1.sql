-- Begin a worker's session: a lease is the right to claim until it expires. Its id is random; it is drawn again if it
-- exists.
CREATE FUNCTION :"schema".open_lease_v1(
    p_worker text, p_ttl double precision, p_info jsonb DEFAULT '{}', p_kind text DEFAULT 'worker',
    p_now timestamptz DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_lease bigint;
BEGIN
    LOOP
        INSERT INTO lease (worker, kind, info, created_at, renewed_at, expires_at)
        VALUES (p_worker, p_kind, p_info, v_now, v_now, v_now + make_interval(secs => p_ttl))
        ON CONFLICT (id) DO NOTHING
        RETURNING id INTO v_lease;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN v_lease;
END
$$;
