-- Close a key for some seconds for all workers, as a service demands with Retry-After.
-- A call never opens it earlier than an earlier one said. Returns the seconds until it opens.
CREATE FUNCTION :"schema".close_bucket_v1(p_key text, p_seconds double precision, p_now timestamptz DEFAULT NULL)
RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, clock_timestamp());
    v_until timestamptz;
BEGIN
    IF p_seconds >= 0 AND p_seconds <= 31536000 THEN
        v_until := v_now + make_interval(secs => p_seconds);
    ELSE
        RAISE EXCEPTION 'A key is closed for 0 to 31536000 seconds (a year), not for %.', p_seconds
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO bucket AS b (key, level, filled_at, closed_until) VALUES (p_key, 'Infinity', v_now, v_until)
    ON CONFLICT ON CONSTRAINT bucket_pkey DO UPDATE SET closed_until = excluded.closed_until
     WHERE b.closed_until IS NULL OR b.closed_until < excluded.closed_until;
    IF FOUND THEN
        PERFORM pg_notify(current_schema() || '.buckets', json_build_array(p_key, p_seconds)::text);
        RETURN p_seconds;
    END IF;
    RETURN (SELECT extract(epoch FROM b.closed_until - v_now) FROM bucket AS b WHERE b.key = p_key);
END
$$;
