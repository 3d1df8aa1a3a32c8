CREATE OR REPLACE FUNCTION penstock.close_lease_v2(p_lease bigint, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'penstock', 'pg_temp'
AS $function$
DECLARE
    v_now      timestamptz := coalesce(p_now, statement_timestamp());
    v_keys     text[] := ARRAY(SELECT g.key FROM "grant" AS g WHERE g.lease = p_lease);
    v_released integer;
BEGIN
    -- Who asks at this moment is either seen here, or sees that the slots are free.
    PERFORM lock_grants_v1(v_keys);
    PERFORM pg_notify(current_schema() || '.grants', k.key)
       FROM unnest(v_keys) AS k (key)
      WHERE EXISTS (SELECT FROM "grant" AS g JOIN lease AS l ON l.id = g.lease AND l.expires_at > v_now
                     WHERE g.key = k.key AND g.lease <> p_lease AND g.wanted > g.slots);
    DELETE FROM leader AS r WHERE r.lease = p_lease;
    IF FOUND THEN
        PERFORM pg_notify(current_schema() || '.leader', 'vacant');
    END IF;
    v_released := release_v1(p_lease, '{}', p_now);
    DELETE FROM "grant" AS g WHERE g.lease = p_lease;
    DELETE FROM signal AS s WHERE s.lease = p_lease;
    DELETE FROM lease AS l WHERE l.id = p_lease;
    RETURN v_released;
END
$function$

CREATE OR REPLACE FUNCTION penstock.ensure_partitions_v2(p_ahead integer DEFAULT 7, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_also date[] DEFAULT '{}'::date[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'penstock', 'pg_temp'
 SET lock_timeout TO '50ms'
AS $function$
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
                        -- Somebody has locked the history itself, and most often not for long.
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
$function$

CREATE OR REPLACE FUNCTION penstock.put_back_v2(p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_delays double precision[], p_failures smallint[], p_stuck boolean[], p_errors text[], p_now timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'penstock', 'pg_temp'
 SET jit TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_nestloop TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
DECLARE
    v_states  text[] := p_states;
    v_delays  double precision[] := p_delays;
    v_blocked integer := 0;
    v_back    integer;
BEGIN
    IF 'blocked' = ANY (p_states) THEN
        SELECT array_agg(coalesce(h.state, g.state) ORDER BY g.ord),
               array_agg(CASE h.state WHEN 'scheduled' THEN 1 ELSE g.delay END ORDER BY g.ord)
          INTO v_states, v_delays
          FROM unnest(p_ids, p_states, p_delays) WITH ORDINALITY AS g (id, state, delay, ord)
          LEFT JOIN hold_waits_v1(ARRAY(
                    SELECT b.id FROM unnest(p_ids, p_states) AS b (id, state) WHERE b.state = 'blocked'), p_now) AS h
            ON h.job = g.id AND g.state = 'blocked';
        UPDATE job AS j
           SET state = 'blocked', reason = g.reason, lease = NULL, token = NULL, last_token = j.token, ready_at = NULL,
               stuck_since = NULL
          FROM unnest(p_ids, p_tokens, v_states, p_reasons) AS g (id, token, state, reason)
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token AND g.state = 'blocked';
        GET DIAGNOSTICS v_blocked = ROW_COUNT;
    END IF;
    WITH given AS (
        SELECT g.id, g.token, g.state, g.reason, coalesce(g.delay, 0) AS delay,
               coalesce(g.failure, 0) AS failure, coalesce(g.stuck, false) AS stuck, g.error
          FROM unnest(p_ids, p_tokens, v_states, p_reasons, v_delays, p_failures, p_stuck, p_errors)
            AS g (id, token, state, reason, delay, failure, stuck, error)
         WHERE g.state IN ('ready', 'scheduled')
    ), back AS (
        UPDATE job AS j
           SET state = g.state, reason = g.reason, lease = NULL, token = NULL, last_token = j.token,
               failures = j.failures + g.failure,
               run_at = p_now + make_interval(secs => g.delay),
               ready_at = CASE WHEN g.state = 'ready' THEN clock_timestamp() END,
               stuck_since = CASE WHEN g.stuck THEN coalesce(j.stuck_since, p_now) END,
               errors = CASE WHEN g.error IS NULL THEN j.errors
                             ELSE coalesce(j.errors, '[]') || (g.error::jsonb
                                  || jsonb_build_object('at', p_now, 'began', j.attempted_at)) END
          FROM given AS g
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
        RETURNING j.state, j.queue, j.lane, j.priority, j.ready_at, j.run_at
    ), told AS (
        SELECT notify_ready_v1(b.queue, b.lane, b.priority, min(b.ready_at))
          FROM back AS b WHERE b.state = 'ready' GROUP BY b.queue, b.lane, b.priority
        UNION ALL
        SELECT notify_due_v1(min(b.run_at)) FROM back AS b WHERE b.state = 'scheduled' HAVING count(*) > 0
    )
    SELECT (SELECT count(*) FROM back) + 0 * (SELECT count(*) FROM told) INTO v_back;
    RETURN v_blocked + v_back;
END
$function$

