-- Return how many seconds are left of a job's sleep, which lasts until a time, or some seconds from the first call on.
CREATE FUNCTION :"schema".sleep_v1(
    p_job bigint, p_token uuid, p_name text, p_until timestamptz, p_seconds double precision,
    p_now timestamptz DEFAULT NULL
) RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_until timestamptz := coalesce(p_until, v_now + make_interval(secs => p_seconds));
BEGIN
    PERFORM save_step_v1(p_job, p_token, 'sleep', p_name, jsonb_build_object('until', v_until), v_now);
    SELECT s.result ->> 'until' INTO v_until FROM step AS s
     WHERE s.job = p_job AND s.kind = 'sleep' AND s.name = p_name;
    RETURN extract(epoch FROM v_until - v_now);
END
$$;
