-- Build and attach the history partitions that settles will need: one a day, to the longest retention and
-- p_ahead days more. Each is made apart and then attached, which waits for no reader and no settle.
-- One that exists and is detached, or whose detaching was broken off, is attached again. If that fails, the others
-- are made all the same; the call that finds nothing else to do raises PS018, with the statement to run as its hint.
CREATE FUNCTION :"schema".ensure_partitions_v1(p_ahead integer DEFAULT 7, p_now timestamptz DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_today  date := (coalesce(p_now, statement_timestamp()) AT TIME ZONE 'UTC')::date;
    v_last   date := v_today + p_ahead + 1
                     + greatest(30, coalesce((SELECT max(r.days) FROM retention AS r), 0));
    v_day    date;
    v_name   text;
    v_attach text;
    v_table  regclass;
    v_is_in  boolean;
    v_is_out boolean;
    v_made   integer := 0;
    v_error  text;
    v_hint   text;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_database() || '.' || current_schema() || '.partitions', 0)) THEN
        RETURN 0;
    END IF;
    FOR v_day IN SELECT d::date FROM generate_series(v_today, v_last, interval '1 day') AS d LOOP
        v_name := 'job_history_' || to_char(v_day, 'YYYYMMDD');
        v_attach := format('ALTER TABLE %1$I.job_history ATTACH PARTITION %1$I.%2$I FOR VALUES FROM (%3$L) TO (%4$L)',
                           current_schema(), v_name, v_day, v_day + 1);
        v_table := to_regclass(format('%I.%I', current_schema(), v_name));
        IF v_table IS NULL THEN
            EXECUTE format('CREATE TABLE %I (LIKE job_history INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING STORAGE)', v_name);
            EXECUTE v_attach;
            v_made := v_made + 1;
            CONTINUE;
        END IF;
        SELECT NOT i.inhdetachpending, i.inhdetachpending INTO v_is_in, v_is_out
          FROM pg_inherits AS i WHERE i.inhrelid = v_table AND i.inhparent = 'job_history'::regclass;
        CONTINUE WHEN v_is_in;
        BEGIN
            IF v_is_out THEN
                EXECUTE format('ALTER TABLE job_history DETACH PARTITION %I FINALIZE', v_name);
            END IF;
            EXECUTE v_attach;
            v_made := v_made + 1;
        EXCEPTION
            WHEN lock_not_available THEN
                RAISE;
            WHEN OTHERS THEN
                v_error := format('The partition %I.%I of the history is detached and cannot be attached: %s.',
                                  current_schema(), v_name, rtrim(SQLERRM, '.'));
                v_hint := format('Jobs whose history expires on %s cannot end. Mend the table, or rename it, and run: %s;',
                                 v_day, v_attach);
        END;
    END LOOP;
    IF v_error IS NOT NULL AND v_made = 0 THEN
        RAISE EXCEPTION '%', v_error USING ERRCODE = 'PS018', HINT = v_hint;
    END IF;
    RETURN v_made;
END
$$;
