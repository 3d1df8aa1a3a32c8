-- A new worker session: the right to claim, until it expires.
CREATE FUNCTION :"schema".open_lease_v1(
    p_worker text, p_ttl double precision, p_info jsonb DEFAULT '{}', p_kind text DEFAULT 'worker',
    p_now timestamptz DEFAULT NULL
) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    INSERT INTO lease (worker, kind, info, created_at, renewed_at, expires_at)
    SELECT p_worker, p_kind, p_info, n.now, n.now, n.now + make_interval(secs => p_ttl)
      FROM (SELECT coalesce(p_now, statement_timestamp()) AS now) AS n
    RETURNING id;
$$;
