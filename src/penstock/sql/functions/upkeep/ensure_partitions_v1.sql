-- Create and attach the history partitions that settles will need in the next p_ahead days: one for each day up to the
-- default retention, beyond that only the days on which a job can expire, and the days of p_also. Each is created as a
-- table of its own and then attached, which waits for no reader and no settle.
-- A partition that exists but is detached, or whose detaching was interrupted, is attached again, unless its day has
-- passed. If that fails, for example because somebody uses it or it belongs to another table, the others are created all
-- the same. A call that has nothing else to do then raises PS018, with what to do as its hint.
-- If row level security is on, it is enabled for each partition too, against access that bypasses the parent table.
CREATE FUNCTION :"schema".ensure_partitions_v1(
    p_ahead integer DEFAULT 7, p_now timestamptz DEFAULT NULL, p_also date[] DEFAULT '{}'
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_today     date := (coalesce(p_now, statement_timestamp()) AT TIME ZONE 'UTC')::date;
    v_day       date;
    v_name      text;
    v_attach    text;
    v_table     regclass;
    v_is_in     boolean;
    v_is_out    boolean;
    v_made      integer := 0;
    v_error     text;
    v_hint      text;
    v_other     text;
    v_users     text;
    v_partition regclass;
BEGIN
    IF pg_try_advisory_xact_lock(hashtextextended(current_database() || '.' || current_schema() || '.partitions', 0)) THEN
        FOR v_day IN
            SELECT v_today + d.days FROM generate_series(0, p_ahead + 8) AS d (days)
            UNION
            SELECT expires_on_v1(v_today + a.days, k.days)
              FROM generate_series(0, p_ahead) AS a (days)
             CROSS JOIN (SELECT 30 AS days UNION SELECT r.days FROM retention AS r) AS k
            UNION
            SELECT a FROM unnest(p_also) AS a
            UNION
            SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_class AS c
             WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relkind = 'r'
               AND c.relname ~ '^job_history_[0-9]{8}$' AND c.relname >= 'job_history_' || to_char(v_today, 'YYYYMMDD')
             ORDER BY 1
        LOOP
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
                    SELECT string_agg(DISTINCT format('%s (%s)', l.pid, coalesce(nullif(a.application_name, ''), a.usename, 'unknown')), ', ')
                      INTO v_users
                      FROM pg_locks AS l
                      LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
                     WHERE l.relation = v_table AND l.granted AND l.pid <> pg_backend_pid()
                       AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());
                    IF v_users IS NULL THEN
                        -- Somebody has locked the history itself, usually not for long.
                        RAISE;
                    END IF;
                    v_error := format('The partition %I.%I of the history is detached and in use, so it cannot be attached.',
                                      current_schema(), v_name);
                    v_hint := format('Jobs whose history expires on %s cannot end. Workers attach it once the transactions of these '
                                     'processes have ended: %s. SELECT pg_terminate_backend(…) ends one.', v_day, v_users);
                WHEN OTHERS THEN
                    SELECT format('%s.%I', o.relnamespace::regnamespace, o.relname) INTO v_other
                      FROM pg_inherits AS i JOIN pg_class AS o ON o.oid = i.inhparent
                     WHERE i.inhrelid = v_table AND i.inhparent <> 'job_history'::regclass;
                    IF v_other IS NOT NULL THEN
                        v_attach := format('ALTER TABLE %s DETACH PARTITION %I.%I; ', v_other, current_schema(), v_name)
                                    || v_attach;
                    END IF;
                    v_error := format('The partition %I.%I of the history is detached and cannot be attached: %s.',
                                      current_schema(), v_name, rtrim(SQLERRM, '.'));
                    v_hint := format('Jobs whose history expires on %s cannot end. Mend the table, or rename it, and run: %s;',
                                     v_day, v_attach);
            END;
        END LOOP;
        IF v_error IS NOT NULL AND v_made = 0 THEN
            RAISE EXCEPTION '%', v_error USING ERRCODE = 'PS018', HINT = v_hint;
        END IF;
    END IF;
    FOR v_partition IN
        SELECT i.inhrelid
          FROM pg_class AS h
          JOIN pg_inherits AS i ON i.inhparent = h.oid
          JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE h.oid = 'job_history'::regclass AND h.relrowsecurity AND NOT c.relrowsecurity
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', v_partition);
    END LOOP;
    RETURN v_made;
END
$$;
