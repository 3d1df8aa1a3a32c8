-- Drop a history partition whose day has passed, for a worker that is not its owner. Such a worker cannot detach it
-- concurrently, and no function can. So this locks the whole history for the moment that the drop takes, and only if
-- nobody uses it at that moment, because everybody else queues behind a transaction that waits for such a lock.
CREATE FUNCTION :"schema".drop_partition_v1(p_name text, p_now timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_tries integer := 25;
BEGIN
    IF p_name !~ '^job_history_[0-9]{8}$' OR p_name >= 'job_history_' || to_char(
        coalesce(p_now, statement_timestamp()) AT TIME ZONE 'UTC', 'YYYYMMDD') THEN
        RAISE EXCEPTION '% is no partition of the history whose day has passed.', p_name
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    LOOP
        BEGIN
            LOCK TABLE ONLY job_history IN ACCESS EXCLUSIVE MODE NOWAIT;
            IF to_regclass(p_name) IS NOT NULL THEN
                EXECUTE format('LOCK TABLE ONLY %1$I IN ACCESS EXCLUSIVE MODE NOWAIT; DROP TABLE %1$I', p_name);
            END IF;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            v_tries := v_tries - 1;
            IF v_tries = 0 THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_sleep(0.02);
    END LOOP;
END
$$;
