-- Save the result of a step, and cache it for other jobs of the tenant for some seconds. If two jobs have computed the
-- same result concurrently, the first one stays in the cache.
CREATE FUNCTION :"schema".share_step_v1(
    p_job bigint, p_token uuid, p_name text, p_result jsonb, p_key bytea, p_ttl double precision,
    p_now timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_tenant text := lock_attempt_v1(p_job, p_token);
BEGIN
    PERFORM save_step_v1(p_job, p_token, 'step', p_name, p_result, v_now);
    INSERT INTO step_cache AS c (tenant, key, result, size, created_at, used_at, expires_at)
    VALUES (v_tenant, p_key, p_result, octet_length(p_result::text), v_now, v_now,
            v_now + make_interval(secs => p_ttl))
    ON CONFLICT (tenant, key) DO UPDATE
       SET result = excluded.result, size = excluded.size, created_at = excluded.created_at,
           used_at = excluded.used_at, expires_at = excluded.expires_at
     WHERE c.expires_at <= v_now;
END
$$;
