-- Build and attach the history partitions that settles will need: one a day, to the longest retention and
-- p_ahead days more. Each is made apart and then attached, which waits for no reader and no settle.
CREATE FUNCTION :"schema".ensure_partitions_v1(p_ahead integer DEFAULT 7, p_now timestamptz DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_today date := (coalesce(p_now, statement_timestamp()) AT TIME ZONE 'UTC')::date;
    v_last  date := v_today + p_ahead + 1
                    + greatest(30, coalesce((SELECT max(r.days) FROM retention AS r), 0));
    v_day   date;
    v_name  text;
    v_made  integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_database() || '.' || current_schema() || '.partitions', 0)) THEN
        RETURN 0;
    END IF;
    FOR v_day IN SELECT d::date FROM generate_series(v_today, v_last, interval '1 day') AS d LOOP
        v_name := 'job_history_' || to_char(v_day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(format('%I.%I', current_schema(), v_name)) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE job_history INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE)', v_name);
        EXECUTE format('ALTER TABLE job_history ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       v_name, v_day, v_day + 1);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END
$$;
