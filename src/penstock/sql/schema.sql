-- What the migrations come to, as pg_dump shows it; made by `make schema`, not edited by hand.
-- Left out are history's partitions, one a day, and what depends on the version of Postgres.
SET check_function_bodies = false;

CREATE SCHEMA penstock;

CREATE FUNCTION penstock.add_dependencies_v1(p_jobs bigint[], p_new boolean[], p_parents text[], p_children text[], p_workflow bigint) RETURNS TABLE(ord bigint, pending integer, has_children boolean, is_doomed boolean, is_stalled boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_new      bigint[] := ARRAY(SELECT g.job FROM unnest(p_jobs, p_new) AS g (job, is_new) WHERE g.is_new);
    v_parents  bigint[];   -- jobs that are not of this call
    v_children bigint[];
    v_live     bigint[];
    v_ended    bigint[];
    v_dates    date[];
    v_well     bigint[];
    v_lost     bigint;
BEGIN
    IF p_workflow IS NULL THEN
        RAISE EXCEPTION 'Only jobs of a workflow can wait for each other.' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_parents) WITH ORDINALITY AS g (list, ord), jsonb_array_elements(g.list::jsonb) AS e
                WHERE (e ->> 'at')::bigint NOT BETWEEN 1 AND g.ord - 1) THEN
        RAISE EXCEPTION 'A job can only wait for jobs that stand before it in the same call, or for others by their id.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_parents := ARRAY(
        SELECT DISTINCT coalesce((e ->> 'job')::bigint, p_jobs[(e ->> 'at')::integer])
          FROM unnest(p_parents, p_new) AS g (list, is_new), jsonb_array_elements(g.list::jsonb) AS e
         WHERE g.is_new
        EXCEPT SELECT unnest(v_new));
    v_children := ARRAY(
        SELECT DISTINCT (e ->> 'job')::bigint
          FROM unnest(p_children, p_new) AS g (list, is_new), jsonb_array_elements(g.list::jsonb) AS e WHERE g.is_new);

    IF cardinality(v_parents || v_children) > 0 THEN
        -- Two concurrent additions could close a cycle that neither sees, and a retry of a parent would not see this one.
        PERFORM 1 FROM workflow AS w WHERE w.id = p_workflow FOR NO KEY UPDATE;
    END IF;
    -- Two passes, since a job may have come back from history in between.
    FOR i IN 1..2 LOOP
        v_live := ARRAY(SELECT j.id FROM job AS j
                         WHERE j.id = ANY (v_parents || v_children) AND coalesce(j.workflow, 0) = p_workflow
                         ORDER BY j.id FOR NO KEY UPDATE);
        v_dates := history_dates_v1(v_parents);
        SELECT coalesce(array_agg(h.id), '{}'), coalesce(array_agg(h.id) FILTER (WHERE h.state = 'completed'), '{}')
          INTO v_ended, v_well
          FROM job_history AS h
         WHERE h.id = ANY (v_parents) AND h.expires_on = ANY (v_dates)
           AND coalesce(h.workflow, 0) = p_workflow AND h.id <> ALL (v_live);
        SELECT p.id INTO v_lost FROM unnest(v_parents) AS p (id) WHERE p.id <> ALL (v_live || v_ended) LIMIT 1;
        EXIT WHEN NOT FOUND;
    END LOOP;
    IF v_lost IS NOT NULL THEN
        RAISE EXCEPTION 'There is no job % of workflow % to wait for.', v_lost, p_workflow
            USING ERRCODE = 'PS013', DETAIL = json_build_array(v_lost::text, p_workflow::text)::text,
                  HINT = 'It was deleted, its history has expired, or it belongs to another workflow.';
    END IF;
    SELECT c.id INTO v_lost FROM unnest(v_children) AS c (id)
     -- A blocked job that waits for no other job has started, and waits for an event.
     WHERE NOT EXISTS (SELECT FROM job AS j WHERE j.id = ANY (v_children) AND j.id = c.id AND coalesce(j.workflow, 0) = p_workflow
                          AND (j.state IN ('ready', 'scheduled') OR j.state = 'blocked' AND j.pending > 0)) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'Job % cannot be made to wait: it has started, or is not of workflow %.', v_lost, p_workflow
            USING ERRCODE = 'PS014', DETAIL = json_build_array(v_lost::text, p_workflow::text)::text,
                  HINT = 'Put new jobs before one that has not started.';
    END IF;

    SELECT g.job INTO v_lost
      FROM unnest(p_jobs, p_parents, p_new) AS g (job, list, is_new), jsonb_array_elements(g.list::jsonb) AS e
     WHERE g.is_new AND p_jobs[(e ->> 'at')::integer] = g.job LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'Job % would wait for itself: two steps with one unique key are one job.', v_lost
            USING ERRCODE = 'PS015', DETAIL = json_build_array(v_lost::text, v_lost::text)::text,
                  HINT = 'Give them different keys, or let neither wait for the other.';
    END IF;

    INSERT INTO dependency (workflow, parent, child, on_failure, satisfied)
    SELECT DISTINCT ON (e.parent, e.child) p_workflow, e.parent, e.child, e.on_failure,
           e.parent = ANY (v_well) OR (e.on_failure = 'continue' AND e.parent = ANY (v_ended))
      FROM (SELECT coalesce((e ->> 'job')::bigint, p_jobs[(e ->> 'at')::integer]) AS parent, g.job AS child,
                   coalesce(e ->> 'on_failure', 'cancel') AS on_failure
              FROM unnest(p_jobs, p_parents, p_new) AS g (job, list, is_new), jsonb_array_elements(g.list::jsonb) AS e
             WHERE g.is_new
             UNION ALL
            SELECT g.job, (e ->> 'job')::bigint, coalesce(e ->> 'on_failure', 'cancel')
              FROM unnest(p_jobs, p_children, p_new) AS g (job, list, is_new), jsonb_array_elements(g.list::jsonb) AS e
             WHERE g.is_new) AS e
     ORDER BY e.parent, e.child, e.on_failure;  -- of two policies the first of: cancel, continue, wait
    -- If all jobs are new and none has children, there can be no cycle.
    PERFORM refuse_cycle_v1(v_new, v_children || v_new) WHERE cardinality(v_children) > 0 OR cardinality(v_new) < cardinality(p_jobs);

    UPDATE job AS j SET has_children = true WHERE j.id = ANY (v_parents) AND NOT j.has_children;
    -- A job that has ended may be retried, and must know its children then.
    UPDATE job_history AS h SET has_children = true
     WHERE h.id = ANY (v_ended) AND h.expires_on = ANY (v_dates) AND NOT h.has_children;
    UPDATE job AS j
       SET state = 'blocked', ready_at = NULL, pending = j.pending + c.count
      FROM (SELECT d.child, count(*)::integer AS count FROM dependency AS d
             WHERE d.parent = ANY (v_new) AND d.child = ANY (v_children) GROUP BY d.child) AS c
     WHERE j.id = ANY (v_children) AND j.id = c.child;

    RETURN QUERY
    SELECT g.ord, coalesce(p.pending, 0), coalesce(c.child IS NOT NULL, false), coalesce(p.doomed, false),
           coalesce(p.stalled, false)
      FROM unnest(p_jobs) WITH ORDINALITY AS g (job, ord)
      LEFT JOIN (SELECT d.child, (count(*) FILTER (WHERE NOT d.satisfied))::integer AS pending,
                        bool_or(NOT d.satisfied AND d.on_failure = 'cancel' AND d.parent = ANY (v_ended)) AS doomed,
                        bool_or(NOT d.satisfied AND d.on_failure = 'wait' AND d.parent = ANY (v_ended)) AS stalled
                   FROM dependency AS d WHERE d.child = ANY (v_new) GROUP BY d.child) AS p ON p.child = g.job
      LEFT JOIN (SELECT DISTINCT d.parent AS child FROM dependency AS d WHERE d.parent = ANY (v_new)) AS c ON c.child = g.job;
END
$$;

CREATE FUNCTION penstock.adjust_budget_v1(p_key text, p_units double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v record;
BEGIN
    IF abs(p_units) < 'Infinity' THEN
        SELECT f.level, f.rate, f.burst, f.filled_at, f.booked INTO v FROM fill_bucket_v1(p_key, p_now) AS f;
        UPDATE bucket AS b SET level = least(v.burst, v.level + p_units), filled_at = v.filled_at,
                               booked = v.booked - p_units
         WHERE b.key = p_key AND v.rate IS NOT NULL;
    ELSE
        RAISE EXCEPTION 'A budget is corrected by a number of units, not by %.', p_units
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

CREATE FUNCTION penstock.apply_unique_v1(p_rules text[], p_tenants text[], p_idempotency_keys text[], p_jobs bigint[], p_new boolean[], p_now timestamp with time zone, OUT keys text[], OUT jobs bigint[], OUT new boolean[], OUT replaced boolean[]) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    AS $$
DECLARE
    v_rules text[];
BEGIN
    SELECT array_agg(CASE WHEN g.is_new THEN g.key || coalesce(':' || g.part, '') END ORDER BY g.ord),
           array_agg(CASE WHEN g.part IS NULL THEN g.rule ELSE g.rule || jsonb_build_object(
               'until', to_timestamp((g.part + 1) * g.period)) END::text ORDER BY g.ord)
      INTO keys, v_rules
      FROM (SELECT r.ord, r.is_new, r.rule::jsonb AS rule, r.rule::jsonb ->> 'key' AS key,
                   (r.rule::jsonb ->> 'period')::double precision AS period,
                   floor(extract(epoch FROM p_now) / (r.rule::jsonb ->> 'period')::double precision)::bigint AS part
              FROM unnest(p_rules, p_new) WITH ORDINALITY AS r (rule, is_new, ord)) AS g;

    SELECT array_agg(coalesce(h.job, g.job) ORDER BY g.ord),
           array_agg(g.is_new AND (h.key IS NULL OR (h.is_new AND h.ord = g.ord)) ORDER BY g.ord),
           array_agg(coalesce(h.is_replaced AND h.ord = g.ord, false) ORDER BY g.ord)
      INTO jobs, new, replaced
      FROM unnest(p_jobs, p_new, keys, p_tenants) WITH ORDINALITY AS g (job, is_new, key, tenant, ord)
      LEFT JOIN claim_unique_keys_v1(p_jobs, keys, p_tenants, v_rules, p_now) AS h
        ON h.key = g.key AND h.tenant = coalesce(g.tenant, '');

    -- A new idempotency key belongs to the job that holds the unique key, for all jobs of this call that have it.
    IF p_idempotency_keys IS NOT NULL THEN
        UPDATE unique_claim AS u SET job = g.job
          FROM unnest(p_idempotency_keys, p_tenants, jobs, p_jobs) AS g (key, tenant, job, was)
         WHERE u.kind = 'idempotency' AND u.tenant = coalesce(g.tenant, '') AND u.key = g.key
           AND u.job = g.was AND g.job <> g.was;
        jobs := ARRAY(SELECT coalesce(m.job, g.job)
                        FROM unnest(jobs, p_jobs) WITH ORDINALITY AS g (job, was, ord)
                        LEFT JOIN (SELECT DISTINCT o.was, o.job FROM unnest(jobs, p_jobs) AS o (job, was)
                                    WHERE o.job <> o.was) AS m ON m.was = g.was
                       ORDER BY g.ord);
    END IF;
END
$$;

CREATE FUNCTION penstock.assign_lanes_v1(p_tasks text[], p_args text[], p_queues text[], p_lanes text[], p_limits text[], p_priorities smallint[], p_tenants text[], p_subjects text[], p_requested_bys text[], p_metas text[], OUT lanes text[], OUT priorities smallint[]) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    AS $$
DECLARE
    v_tasks text[] := ARRAY(SELECT l.key FROM limit_setting AS l WHERE l.key LIKE 'task:%');
BEGIN
    WITH limited AS (
        SELECT DISTINCT t.task FROM unnest(p_tasks) AS t (task), unnest(v_tasks) AS l (key)
         WHERE 'task:' || t.task = l.key
            OR right(l.key, 1) = '*' AND starts_with('task:' || t.task, left(l.key, -1))
    )
    SELECT array_agg(CASE WHEN g.limits IS NULL AND l.task IS NULL THEN replace(left(w.turn, 200), E'\x1f', ' ')
                          ELSE lane_v1(w.turn, g.limits, 'task:' || l.task) END ORDER BY g.ord),
           array_agg(greatest(-100, least(100, coalesce(g.priority, 0) + coalesce(p.priority, 0)))::smallint
                     ORDER BY g.ord)
      INTO lanes, priorities
      FROM unnest(p_tasks, p_args, p_queues, p_lanes, p_limits, p_priorities, p_tenants, p_subjects,
                  p_requested_bys, p_metas) WITH ORDINALITY
        AS g (task, args, queue, lane, limits, priority, tenant, subject, requested_by, meta, ord)
      LEFT JOIN queue AS q ON q.name = coalesce(g.queue, 'default') AND q.fair
      LEFT JOIN tenant_setting AS t ON t.tenant = g.tenant
      LEFT JOIN plan AS p ON p.name = t.plan
      LEFT JOIN limited AS l ON l.task = g.task
     CROSS JOIN LATERAL (
           SELECT coalesce(g.lane, CASE WHEN q.fair THEN
                      lane_key_v1(q.lane_key, g.task, g.tenant, g.subject, g.requested_by, g.args, g.meta)
                  END, '') AS turn) AS w;
END
$$;

CREATE FUNCTION penstock.await_event_v1(p_job bigint, p_token uuid, p_step text, p_name text, p_after bigint, p_timeout double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(answer text, result jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_tenant text := lock_attempt_v1(p_job, p_token);
    v_until  timestamptz;
BEGIN
    PERFORM commit_durably_v1();
    IF NOT pg_try_advisory_xact_lock_shared(event_lock_key_v1(v_tenant, p_name)) THEN
        answer := 'busy';
        RETURN NEXT;
        RETURN;
    END IF;
    answer := 'got';
    SELECT jsonb_build_object('event', e.id, 'payload', e.payload) INTO result FROM event AS e
     WHERE e.tenant = v_tenant AND e.name = p_name AND e.id > p_after AND e.expires_at > v_now
     ORDER BY e.id LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO event_wait AS w (job, step, tenant, name, after_event, until)
        VALUES (p_job, p_step, v_tenant, p_name, p_after, v_now + make_interval(secs => p_timeout))
        ON CONFLICT (job, step) DO UPDATE SET woken = false
        RETURNING w.until INTO v_until;
        IF v_until <= v_now THEN
            answer := 'timeout';
            result := '{"timed_out": true}';
        ELSE
            answer := 'wait';
        END IF;
    END IF;
    IF result IS NOT NULL THEN
        PERFORM save_step_v1(p_job, p_token, 'event', p_step, result, v_now);
        DELETE FROM event_wait AS w WHERE w.job = p_job AND w.step = p_step;
    END IF;
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.cancel_batch_v1(p_batch bigint, p_after bigint, p_limit integer, p_reason text DEFAULT 'requested'::text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(found integer, cancelled integer, last bigint)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(SELECT j.id FROM job AS j
                    WHERE (j.batch, j.id) > (p_batch, p_after) AND j.batch <= p_batch
                    ORDER BY j.batch, j.id LIMIT p_limit);
    RETURN QUERY
    SELECT count(*)::integer, (count(*) FILTER (WHERE c.answer = 'cancelled'))::integer, max(c.id)
      FROM cancel_v1(v_ids, p_reason, p_now) AS c;
END
$$;

CREATE FUNCTION penstock.cancel_v1(p_ids bigint[], p_reason text DEFAULT 'requested'::text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_done    bigint[] := '{}';
    v_answers text[];
    v_ids     bigint[];
    v_tokens  uuid[];
    v_leases  bigint[];
BEGIN
    LOOP
        SELECT coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.token), '{}'),
               coalesce(array_agg(l.lease), '{}')
          INTO v_ids, v_tokens, v_leases
          FROM (SELECT j.id, j.token, j.lease FROM job AS j
                 WHERE j.id = ANY (p_ids) ORDER BY j.id FOR UPDATE) AS l;
        PERFORM finish_jobs_v1(v_ids, v_tokens, array_fill('cancelled'::text, ARRAY[cardinality(v_ids)]),
                               array_fill(p_reason, ARRAY[cardinality(v_ids)]), NULL, NULL, NULL, NULL, false, v_now);
        INSERT INTO signal (lease, job, token, kind)
        SELECT r.lease, r.id, r.token, 'cancelled'
          FROM unnest(v_ids, v_tokens, v_leases) AS r (id, token, lease) WHERE r.lease IS NOT NULL;
        PERFORM pg_notify(current_schema() || '.signal', r.lease::text)
           FROM (SELECT DISTINCT lease FROM unnest(v_leases) AS x (lease) WHERE lease IS NOT NULL) AS r;
        v_done := v_done || v_ids;
        v_answers := ARRAY(
            SELECT CASE WHEN g.id = ANY (v_done) THEN 'cancelled' ELSE coalesce(a.state, 'missing') END
              FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
              LEFT JOIN find_jobs_v1(ARRAY(SELECT o FROM unnest(p_ids) AS o EXCEPT SELECT d FROM unnest(v_done) AS d)) AS a ON a.id = g.id
             ORDER BY g.ord);
        -- Repeat if one of them is live: a retry has moved it back from history in between.
        EXIT WHEN NOT v_answers && ARRAY['scheduled', 'ready', 'running', 'blocked'];
    END LOOP;
    RETURN QUERY SELECT a.id, a.answer FROM unnest(p_ids, v_answers) AS a (id, answer);
END
$$;

CREATE FUNCTION penstock.cancel_workflow_v1(p_workflow bigint, p_reason text DEFAULT 'requested'::text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_jobs  bigint[];
    v_ended integer := 0;
BEGIN
    PERFORM 1 FROM workflow AS w WHERE w.id = p_workflow FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    LOOP
        v_jobs := ARRAY(SELECT j.id FROM job AS j WHERE j.workflow = p_workflow);
        EXIT WHEN cardinality(v_jobs) = 0;
        v_ended := v_ended + (SELECT count(*) FROM cancel_v1(v_jobs, p_reason, p_now) AS c WHERE c.answer = 'cancelled');
    END LOOP;
    RETURN v_ended;
END
$$;

CREATE FUNCTION penstock.check_windows_v1(p_windows jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(open boolean, changes_in double precision)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_zone  text := coalesce(p_windows ->> 'timezone', 'UTC');
    v_open  tstzmultirange;
    v_until timestamptz;
BEGIN
    open := true;
    IF p_windows -> 'open' IS NOT NULL THEN
        -- From yesterday, whose windows may reach into today, over two weeks: a window within the hour that the clock
        -- skips is missing in one of them.
        SELECT coalesce(range_agg(tstzrange(s.starts, greatest(s.starts, s.ends))), '{}') INTO v_open
          FROM generate_series(-1, 16) AS n
         CROSS JOIN LATERAL (SELECT (v_now AT TIME ZONE v_zone)::date + n AS day) AS d
         CROSS JOIN jsonb_to_recordset(p_windows -> 'open') AS w (days integer[], "from" time, "to" time)
         CROSS JOIN LATERAL (
               SELECT (d.day + w."from") AT TIME ZONE v_zone AS starts,
                      (d.day + (w."to" <= w."from")::integer + w."to") AT TIME ZONE v_zone AS ends) AS s
         WHERE extract(isodow FROM d.day) = ANY (coalesce(w.days, '{1,2,3,4,5,6,7}'));
        open := v_open @> v_now;
        SELECT min(CASE WHEN open THEN upper(r) ELSE lower(r) END) INTO v_until
          FROM unnest(v_open) AS r WHERE CASE WHEN open THEN r @> v_now ELSE lower(r) > v_now END;
        -- Windows that stay open for more than a week never close.
        IF NOT open OR v_until - v_now <= interval '8 days' THEN
            changes_in := extract(epoch FROM v_until - v_now);
        END IF;
    END IF;
    RETURN NEXT;
EXCEPTION WHEN data_exception THEN
    open := true;
    changes_in := NULL;
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.choose_unique_v1(p_jobs bigint[], p_keys text[], p_tenants text[], p_rules text[]) RETURNS TABLE(ord bigint, job bigint, tenant text, key text, hold text, on_conflict text, keep double precision, until timestamp with time zone)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    v_key text;
BEGIN
    SELECT g.key INTO v_key
      FROM unnest(p_keys, p_tenants, p_rules) AS g (key, tenant, rule)
     WHERE g.key IS NOT NULL
     GROUP BY g.key, coalesce(g.tenant, '')
    HAVING count(*) > 1 AND bool_or(g.rule::jsonb ->> 'on_conflict' = 'raise')
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'Unique key "%" is given to two jobs of one call.', v_key
            USING ERRCODE = 'PS010', DETAIL = json_build_array(v_key, NULL)::text,
                  HINT = 'Leave one of them out, or ask for another answer to the conflict.';
    END IF;
    RETURN QUERY
    SELECT DISTINCT ON (g.tenant, g.key)
           g.ord, g.job, g.tenant, g.key, coalesce(g.rule ->> 'hold', 'live'), coalesce(g.rule ->> 'on_conflict', 'skip'),
           (g.rule ->> 'keep')::double precision, (g.rule ->> 'until')::timestamptz
      FROM (SELECT k.ord, k.job, coalesce(k.tenant, '') AS tenant, k.key, k.rule::jsonb AS rule
              FROM unnest(p_jobs, p_keys, p_tenants, p_rules) WITH ORDINALITY AS k (job, key, tenant, rule, ord)
             WHERE k.key IS NOT NULL) AS g
     ORDER BY g.tenant, g.key,
              CASE WHEN g.rule ->> 'on_conflict' IN ('replace', 'supersede') THEN -g.ord ELSE g.ord END;
END
$$;

CREATE FUNCTION penstock.claim_idempotency_keys_v1(p_keys text[], p_tenants text[], p_fingerprints bytea[], p_now timestamp with time zone) RETURNS TABLE(ord bigint, job bigint, is_new boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
#variable_conflict use_column
DECLARE
    v_won      bigint[];
    v_mismatch text;
    v_job      bigint;
BEGIN
    WITH won AS (
        INSERT INTO unique_claim AS u (kind, tenant, key, job, fingerprint, expires_at)
        SELECT 'idempotency', g.tenant, g.key, nextval('job_id_seq'), g.fingerprint, p_now + interval '7 days'
          FROM (SELECT DISTINCT ON (coalesce(k.tenant, ''), k.key)
                       coalesce(k.tenant, '') AS tenant, k.key, k.fingerprint
                  FROM unnest(p_keys, p_tenants, p_fingerprints) WITH ORDINALITY
                    AS k (key, tenant, fingerprint, ord)
                 WHERE k.key IS NOT NULL
                 ORDER BY coalesce(k.tenant, ''), k.key, k.ord) AS g
        ON CONFLICT (kind, tenant, key) DO UPDATE
           SET job = excluded.job, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at
         WHERE u.expires_at <= p_now
        RETURNING u.job
    )
    SELECT coalesce(array_agg(w.job), '{}') INTO v_won FROM won AS w;

    SELECT k.key, u.job INTO v_mismatch, v_job
      FROM unnest(p_keys, p_tenants, p_fingerprints) AS k (key, tenant, fingerprint)
      JOIN unique_claim AS u
        ON u.kind = 'idempotency' AND u.tenant = coalesce(k.tenant, '') AND u.key = k.key
     WHERE u.fingerprint IS DISTINCT FROM k.fingerprint
     LIMIT 1;
    IF v_mismatch IS NOT NULL THEN
        RAISE EXCEPTION 'Idempotency key "%" belongs to a job with other arguments.', v_mismatch
            USING ERRCODE = 'PS002', HINT = 'Use a new key for a new request, or send the same arguments.',
                  DETAIL = json_build_array(v_mismatch, v_job::text)::text;
    END IF;

    RETURN QUERY
    SELECT k.ord, coalesce(u.job, nextval('job_id_seq')),
           u.job IS NULL
           OR (u.job = ANY (v_won)
               AND row_number() OVER (PARTITION BY u.job ORDER BY k.ord) = 1)
      FROM unnest(p_keys, p_tenants) WITH ORDINALITY AS k (key, tenant, ord)
      LEFT JOIN unique_claim AS u
        ON u.kind = 'idempotency' AND u.tenant = coalesce(k.tenant, '') AND u.key = k.key;
END
$$;

CREATE FUNCTION penstock.claim_unique_keys_v1(p_jobs bigint[], p_keys text[], p_tenants text[], p_rules text[], p_now timestamp with time zone) RETURNS TABLE(ord bigint, tenant text, key text, job bigint, is_new boolean, is_replaced boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v        record;
    v_claim  record;
    v_state  text;
    v_passes boolean;
    v_won    bigint[];
    v_lost   bigint[];
    v_older  bigint[] := '{}';
    v_update boolean;
    v_others bigint[];
BEGIN
    WITH chosen AS MATERIALIZED (
        SELECT g.* FROM choose_unique_v1(p_jobs, p_keys, p_tenants, p_rules) AS g
    ), taken AS (
        INSERT INTO unique_claim AS u (kind, tenant, key, job, keep, until)
        SELECT 'unique', c.tenant, c.key, c.job, c.keep, c.until FROM chosen AS c ORDER BY c.tenant, c.key
        ON CONFLICT DO NOTHING
        RETURNING u.job
    )
    SELECT array_agg(c.ord) FILTER (WHERE t.job IS NOT NULL), array_agg(c.ord) FILTER (WHERE t.job IS NULL)
      INTO v_won, v_lost
      FROM chosen AS c LEFT JOIN taken AS t ON t.job = c.job;
    RETURN QUERY
    SELECT g.ord, coalesce(g.tenant, ''), g.key, g.job, true, false
      FROM unnest(p_jobs, p_keys, p_tenants) WITH ORDINALITY AS g (job, key, tenant, ord)
      JOIN unnest(v_won) AS w (ord) ON w.ord = g.ord;
    IF v_lost IS NULL THEN
        RETURN;
    END IF;

    -- Jobs that hold keys are locked in the order of ids, as everybody does; each of them is checked later.
    IF cardinality(v_lost) > 1 THEN
        SELECT bool_or(g.on_conflict IN ('replace', 'supersede')),
               array_agg((SELECT u.job FROM unique_claim AS u
                           WHERE u.kind = 'unique' AND u.tenant = g.tenant AND u.key = g.key AND u.expires_at IS NULL))
          INTO v_update, v_others
          FROM choose_unique_v1(p_jobs, p_keys, p_tenants, p_rules) AS g
         WHERE g.ord = ANY (v_lost) AND (g.on_conflict IN ('replace', 'supersede') OR g.hold = 'waiting');
        IF v_update THEN
            PERFORM 1 FROM job AS j WHERE j.id = ANY (v_others) ORDER BY j.id FOR UPDATE;
        ELSIF v_others IS NOT NULL THEN
            PERFORM 1 FROM job AS j WHERE j.id = ANY (v_others) ORDER BY j.id FOR SHARE;
        END IF;
    END IF;
    FOR v IN SELECT g.* FROM choose_unique_v1(p_jobs, p_keys, p_tenants, p_rules) AS g
              WHERE g.ord = ANY (v_lost) ORDER BY g.tenant, g.key LOOP
        ord := v.ord; tenant := v.tenant; key := v.key;
        job := v.job; is_new := false; is_replaced := false;
        WHILE NOT is_new LOOP
            -- Both are read in one snapshot: a claim without a job is left over from SQL that somebody ran by hand.
            SELECT u.job, u.expires_at, coalesce(u.expires_at <= p_now, j.id IS NULL) AS is_over
              INTO v_claim
              FROM unique_claim AS u LEFT JOIN job AS j ON j.id = u.job
             WHERE u.kind = 'unique' AND u.tenant = v.tenant AND u.key = v.key;
            IF NOT FOUND THEN  -- released in between
                INSERT INTO unique_claim (kind, tenant, key, job, keep, until)
                VALUES ('unique', v.tenant, v.key, v.job, v.keep, v.until) ON CONFLICT DO NOTHING;
                is_new := FOUND;
                CONTINUE;
            END IF;
            v_state := NULL;
            IF v_claim.expires_at IS NULL AND NOT v_claim.is_over THEN
                -- A job that waits for an event has started.
                IF v.on_conflict IN ('replace', 'supersede') THEN
                    SELECT CASE WHEN j.state = 'blocked' AND j.pending = 0 THEN 'running' ELSE j.state END INTO v_state
                      FROM job AS j WHERE j.id = v_claim.job FOR UPDATE;
                    CONTINUE WHEN NOT FOUND;  -- it has ended in between, and does not hold the key any more
                ELSIF v.hold = 'waiting' THEN
                    SELECT CASE WHEN j.state = 'blocked' AND j.pending = 0 THEN 'running' ELSE j.state END INTO v_state
                      FROM job AS j WHERE j.id = v_claim.job FOR SHARE;
                    CONTINUE WHEN NOT FOUND;
                END IF;
            END IF;
            v_passes := v_claim.is_over
                OR coalesce(v_state = 'running' AND (v.hold = 'waiting' OR v.on_conflict = 'replace'), false);
            IF v_passes OR v.on_conflict = 'supersede' THEN
                UPDATE unique_claim AS u
                   SET job = v.job, keep = v.keep, until = v.until, expires_at = NULL
                 WHERE u.kind = 'unique' AND u.tenant = v.tenant AND u.key = v.key AND u.job = v_claim.job;
                is_new := FOUND;
                IF is_new AND NOT v_passes THEN
                    v_older := v_older || v_claim.job;
                END IF;
                CONTINUE;
            END IF;
            IF v.on_conflict = 'raise' THEN
                RAISE EXCEPTION 'Unique key "%" is held by job %.', v.key, v_claim.job
                    USING ERRCODE = 'PS010', DETAIL = json_build_array(v.key, v_claim.job::text)::text,
                          HINT = 'Wait for that job, or ask for another answer to the conflict.';
            END IF;
            job := v_claim.job;
            is_replaced := v.on_conflict = 'replace' AND v_state IS NOT NULL;
            EXIT;
        END LOOP;
        RETURN NEXT;
    END LOOP;
    IF v_older <> '{}' THEN
        PERFORM cancel_v1(v_older, 'superseded', p_now);
    END IF;
END
$$;

CREATE FUNCTION penstock.claim_v1(p_lease bigint, p_queue text, p_lanes text[], p_priorities smallint[], p_cursor_times timestamp with time zone[], p_cursor_ids bigint[], p_takes integer[], p_limit integer, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb) RETURNS TABLE(id bigint, token uuid, task text, args jsonb, args_version smallint, attempt integer, failures integer, max_attempts integer, losses smallint, timeout double precision, lane text, priority smallint, tenant text, ready_at timestamp with time zone, created_at timestamp with time zone, batch bigint, suspect boolean, extra jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_salt bytea := uuid_send(gen_random_uuid());
BEGIN
    IF p_options ->> 'commit' = 'async' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF NOT EXISTS (SELECT FROM lease AS l WHERE l.id = p_lease AND l.expires_at > v_now) THEN
        RAISE EXCEPTION 'Lease % has expired or was given up; claim with a new one.', p_lease
            USING ERRCODE = 'PS001';
    END IF;
    IF EXISTS (SELECT FROM queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE job AS j
       SET state = 'running', lease = p_lease, token = encode(substring(sha256(v_salt || int8send(j.id)) FOR 16), 'hex')::uuid,
           attempt = j.attempt + 1, attempted_at = v_now
     WHERE j.id = ANY (ARRAY(
           SELECT t.id
             FROM unnest(p_lanes, p_priorities, p_cursor_times, p_cursor_ids, p_takes)
               AS l (lane, priority, cursor_time, cursor_id, take)
            CROSS JOIN LATERAL (
                  SELECT c.id
                    FROM job AS c
                   WHERE c.state = 'ready' AND c.queue = p_queue
                     AND c.lane = l.lane AND c.priority = l.priority
                     AND (c.ready_at, c.id) >= (l.cursor_time, l.cursor_id)
                     AND (c.deadline IS NULL OR c.deadline > v_now)
                   ORDER BY c.ready_at, c.id
                   LIMIT l.take
                     FOR NO KEY UPDATE SKIP LOCKED) AS t
            LIMIT p_limit))
    RETURNING j.id, j.token, j.task, j.args, j.args_version, j.attempt,
              j.failures, j.max_attempts, j.losses, j.timeout,
              j.lane, j.priority, j.tenant, j.ready_at, j.created_at, j.batch, j.suspect,
              CASE WHEN coalesce(j.subject, j.requested_by, j.reason) IS NOT NULL
                     OR coalesce(j.meta, j.retry, j.errors) IS NOT NULL
                     OR coalesce(j.deadline, j.stuck_since) IS NOT NULL
                     OR j.tags IS NOT NULL OR j.run_at <> j.created_at
                     OR j.workflow IS NOT NULL OR j.unique_key IS NOT NULL
                   THEN jsonb_build_object(
                       'run_at', j.run_at, 'deadline', j.deadline, 'stuck_since', j.stuck_since,
                       'subject', j.subject, 'requested_by', j.requested_by, 'tags', j.tags,
                       'meta', j.meta, 'retry', j.retry, 'errors', j.errors, 'workflow', j.workflow,
                       'step', j.step, 'unique_key', j.unique_key)
              END;
END
$$;

CREATE FUNCTION penstock.close_batch_v1(p_batches bigint[], p_cancel boolean DEFAULT false, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
BEGIN
    -- Wait for those who are adding jobs: they have locked its key.
    PERFORM 1 FROM batch AS b WHERE b.id = ANY (p_batches) ORDER BY b.id FOR UPDATE;
    UPDATE batch AS b SET closed_at = v_now WHERE b.id = ANY (p_batches) AND b.closed_at IS NULL;
    UPDATE batch AS b SET cancelled_at = v_now
     WHERE p_cancel AND b.id = ANY (p_batches) AND b.finished_at IS NULL AND b.cancelled_at IS NULL;
    -- For an empty batch, or one that is done already, no other delta would trigger the fold that finishes it.
    INSERT INTO batch_delta (batch)
    SELECT b.id FROM batch AS b WHERE b.id = ANY (p_batches) AND b.finished_at IS NULL;
    RETURN QUERY
    SELECT g.id, CASE WHEN b.id IS NULL THEN 'missing' ELSE 'closed' END
      FROM unnest(p_batches) AS g (id) LEFT JOIN batch AS b ON b.id = g.id;
END
$$;

CREATE FUNCTION penstock.close_bucket_v1(p_key text, p_seconds double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS double precision
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
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

CREATE FUNCTION penstock.close_lease_v1(p_lease bigint, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_now      timestamptz := coalesce(p_now, statement_timestamp());
    v_keys     text[] := ARRAY(SELECT g.key FROM "grant" AS g WHERE g.lease = p_lease);
    v_released integer;
BEGIN
    -- A worker that requests slots at this moment is either notified here, or sees that the slots are free.
    PERFORM lock_grants_v1(v_keys);
    PERFORM pg_notify(current_schema() || '.grants', k.key)
       FROM unnest(v_keys) AS k (key)
      WHERE EXISTS (SELECT FROM "grant" AS g JOIN lease AS l ON l.id = g.lease AND l.expires_at > v_now
                     WHERE g.key = k.key AND g.lease <> p_lease AND g.wanted > g.slots);
    DELETE FROM leader AS r WHERE r.lease = p_lease;
    IF FOUND THEN
        PERFORM pg_notify(current_schema() || '.leader', 'vacant');
    END IF;
    v_released := release_jobs_v1(p_lease, '{}', p_now);
    DELETE FROM "grant" AS g WHERE g.lease = p_lease;
    DELETE FROM signal AS s WHERE s.lease = p_lease;
    DELETE FROM lease AS l WHERE l.id = p_lease;
    RETURN v_released;
END
$$;

CREATE FUNCTION penstock.commit_durably_v1() RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

CREATE FUNCTION penstock.cover_retention_v1() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
BEGIN
    -- Wait for those who create partitions now, since they may not have seen this row.
    PERFORM pg_advisory_xact_lock(
        hashtextextended(current_database() || '.' || current_schema() || '.partitions', 0));
    BEGIN
        PERFORM ensure_partitions_v1();
    EXCEPTION WHEN SQLSTATE 'PS018' THEN
        -- All exist except one that is detached and cannot be attached. Workers and the doctor report it.
        NULL;
    END;
    RETURN NULL;
END
$$;

CREATE FUNCTION penstock.delete_v1(p_ids bigint[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_live  bigint[];
    v_final bigint[];
    v_dates date[];
    v_gone  bigint[];
BEGIN
    SELECT coalesce(array_agg(l.id), '{}') INTO v_live
      FROM (SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids) AND j.state <> 'running' ORDER BY j.id FOR UPDATE) AS l;
    PERFORM finish_jobs_v1(v_live, NULL, array_fill('cancelled'::text, ARRAY[cardinality(v_live)]),
                           array_fill('deleted'::text, ARRAY[cardinality(v_live)]), NULL, NULL, NULL, NULL, false,
                           coalesce(p_now, statement_timestamp()));
    v_dates := history_dates_v1(p_ids);
    SELECT coalesce(array_agg(f.id), '{}') INTO v_final
      FROM (SELECT h.id FROM job_history AS h WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) FOR UPDATE) AS f;
    v_gone := v_final;
    DELETE FROM progress AS p WHERE p.job = ANY (v_gone);
    DELETE FROM step AS s WHERE s.job = ANY (v_gone);
    DELETE FROM event_wait AS w WHERE w.job = ANY (v_gone);
    DELETE FROM dependency AS d WHERE d.child = ANY (v_gone);
    -- Jobs that wait for one of them stay blocked until somebody unblocks them.
    DELETE FROM dependency AS d
     WHERE d.parent = ANY (v_gone) AND (d.satisfied OR NOT EXISTS (SELECT FROM job AS j WHERE j.id = d.child));
    -- A unique key must not belong to a job that does not exist any more.
    DELETE FROM unique_claim AS u WHERE u.job = ANY (v_gone);
    DELETE FROM job_history AS h WHERE h.id = ANY (v_final) AND h.expires_on = ANY (v_dates);
    RETURN QUERY
    SELECT g.id, CASE WHEN g.id = ANY (v_gone) THEN 'deleted' ELSE coalesce(j.state, 'missing') END
      FROM unnest(p_ids) AS g (id) LEFT JOIN job AS j ON j.id = g.id AND j.id = ANY (p_ids);
END
$$;

CREATE FUNCTION penstock.dependents_to_cancel_v1(p_parents bigint[], p_workflows bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_doomed bigint[];
BEGIN
    UPDATE job AS j SET reason = 'parent_failed'
     WHERE j.id = ANY (ARRAY(
               SELECT c.child FROM unnest(p_parents, p_workflows) AS e (id, workflow), LATERAL (
                      SELECT d.child, d.workflow FROM dependency AS d
                       WHERE d.parent = e.id AND NOT d.satisfied AND d.on_failure = 'wait' OFFSET 0) AS c
                WHERE c.workflow = e.workflow))
       AND coalesce(j.workflow, 0) = ANY (p_workflows) AND j.state = 'blocked';

    WITH RECURSIVE doomed AS (
        SELECT e.id, e.workflow FROM unnest(p_parents, p_workflows) AS e (id, workflow)
         UNION
        SELECT c.child, x.workflow FROM doomed AS x, LATERAL (
               SELECT d.child, d.workflow FROM dependency AS d
                WHERE d.parent = x.id AND NOT d.satisfied AND d.on_failure = 'cancel' OFFSET 0) AS c
         WHERE c.workflow = x.workflow
    )
    SELECT array_agg(l.id) INTO v_doomed
      FROM (SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT x.id FROM doomed AS x))
               AND coalesce(j.workflow, 0) = ANY (p_workflows) AND j.state = 'blocked'
             ORDER BY j.id FOR UPDATE) AS l;
    RETURN v_doomed;
END
$$;

CREATE FUNCTION penstock.drop_partition_v1(p_name text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET lock_timeout TO '50ms'
    AS $_$
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
$_$;

CREATE FUNCTION penstock.elect_v1(p_role text, p_lease bigint, p_ttl double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO leader AS r (role, lease, elected_at, expires_at)
    SELECT p_role, p_lease, v_now, v_now + make_interval(secs => p_ttl)
     WHERE EXISTS (SELECT FROM lease AS l WHERE l.id = p_lease AND l.expires_at > v_now)
    ON CONFLICT (role) DO UPDATE
       SET lease = excluded.lease, expires_at = excluded.expires_at,
           elected_at = CASE WHEN r.lease = excluded.lease THEN r.elected_at ELSE excluded.elected_at END
     WHERE r.lease = excluded.lease OR r.expires_at <= v_now
        OR NOT EXISTS (SELECT FROM lease AS l WHERE l.id = r.lease AND l.expires_at > v_now);
    RETURN FOUND;
END
$$;

CREATE FUNCTION penstock.enqueue(task text, args jsonb DEFAULT '{}'::jsonb, queue text DEFAULT 'default'::text, priority integer DEFAULT 0, delay interval DEFAULT NULL::interval, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT 5, timeout double precision DEFAULT 3600, tenant text DEFAULT ''::text, subject text DEFAULT NULL::text, requested_by text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[], meta jsonb DEFAULT NULL::jsonb, deadline timestamp with time zone DEFAULT NULL::timestamp with time zone, args_version integer DEFAULT 1, lane text DEFAULT NULL::text, limits text[] DEFAULT NULL::text[], batch bigint DEFAULT NULL::bigint, unique_key text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT e.id FROM enqueue_v1(
        p_tasks => ARRAY[task], p_args => ARRAY[args::text], p_queues => ARRAY[queue], p_lanes => ARRAY[lane],
        p_limits => ARRAY[to_jsonb(limits)::text],
        p_args_versions => ARRAY[args_version::smallint],
        p_priorities => ARRAY[priority::smallint],
        p_delays => ARRAY[extract(epoch FROM delay)::double precision],
        p_run_ats => ARRAY[run_at], p_max_attempts => ARRAY[max_attempts],
        p_timeouts => ARRAY[timeout], p_tenants => ARRAY[tenant], p_subjects => ARRAY[subject],
        p_requested_bys => ARRAY[requested_by], p_tags => ARRAY[to_jsonb(tags)::text],
        p_metas => ARRAY[meta::text], p_deadlines => ARRAY[deadline], p_batch => batch,
        p_uniques => CASE WHEN unique_key IS NOT NULL THEN ARRAY[json_build_object('key', unique_key)::text] END,
        p_options => '{"notify": true}') AS e;
$$;

CREATE FUNCTION penstock.enqueue_callback_v1(p_batch bigint, p_tenant text, p_moment text, p_callbacks jsonb, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT enqueue_stored_v1(p_callbacks -> p_moment, coalesce(nullif(p_tenant, ''), p_callbacks -> p_moment ->> 'tenant', ''),
                             jsonb_build_object('batch', p_batch::text, 'moment', p_moment), NULL, p_now)
     WHERE p_callbacks ? p_moment;
$$;

CREATE FUNCTION penstock.enqueue_stored_v1(p_request jsonb, p_tenant text, p_meta jsonb DEFAULT NULL::jsonb, p_run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT e.id FROM enqueue_v1(
        p_tasks => ARRAY[p_request ->> 'task'],
        p_args => ARRAY[coalesce(p_request -> 'args', '{}')::text],
        p_args_versions => ARRAY[(p_request ->> 'args_version')::smallint],
        p_queues => ARRAY[p_request ->> 'queue'],
        p_lanes => CASE WHEN p_request ? 'lane' THEN ARRAY[p_request ->> 'lane'] END,
        p_limits => CASE WHEN p_request ? 'limits' THEN ARRAY[p_request ->> 'limits'] END,
        p_priorities => ARRAY[(p_request ->> 'priority')::smallint],
        p_delays => ARRAY[(p_request ->> 'delay')::double precision],
        p_run_ats => ARRAY[p_run_at],
        p_max_attempts => ARRAY[(p_request ->> 'max_attempts')::integer],
        p_timeouts => ARRAY[(p_request ->> 'timeout')::double precision],
        p_tenants => ARRAY[p_tenant],
        p_subjects => ARRAY[p_request ->> 'subject'],
        p_requested_bys => ARRAY[p_request ->> 'requested_by'],
        p_tags => ARRAY[p_request ->> 'tags'],
        p_metas => ARRAY[nullif(coalesce(p_request -> 'meta', '{}') || coalesce(p_meta, '{}'), '{}')::text],
        p_retries => ARRAY[p_request ->> 'retry'],
        p_uniques => CASE WHEN p_request ? 'unique' THEN ARRAY[p_request ->> 'unique'] END,
        p_now => p_now,
        p_options => '{"notify": true}') AS e;
$$;

CREATE FUNCTION penstock.enqueue_v1(p_tasks text[], p_args text[], p_args_versions smallint[] DEFAULT NULL::smallint[], p_queues text[] DEFAULT NULL::text[], p_lanes text[] DEFAULT NULL::text[], p_limits text[] DEFAULT NULL::text[], p_priorities smallint[] DEFAULT NULL::smallint[], p_delays double precision[] DEFAULT NULL::double precision[], p_run_ats timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_max_attempts integer[] DEFAULT NULL::integer[], p_timeouts double precision[] DEFAULT NULL::double precision[], p_tenants text[] DEFAULT NULL::text[], p_subjects text[] DEFAULT NULL::text[], p_requested_bys text[] DEFAULT NULL::text[], p_tags text[] DEFAULT NULL::text[], p_metas text[] DEFAULT NULL::text[], p_retries text[] DEFAULT NULL::text[], p_deadlines timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_keys text[] DEFAULT NULL::text[], p_fingerprints bytea[] DEFAULT NULL::bytea[], p_uniques text[] DEFAULT NULL::text[], p_batch bigint DEFAULT NULL::bigint, p_workflow bigint DEFAULT NULL::bigint, p_steps text[] DEFAULT NULL::text[], p_parents text[] DEFAULT NULL::text[], p_children text[] DEFAULT NULL::text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb) RETURNS TABLE(id bigint, duplicate boolean, lane text, priority smallint)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    -- Not later than any ready_at of this transaction, and the same for all of its enqueues, because Postgres merges
    -- equal notifications of one transaction.
    v_since  timestamptz := coalesce(p_now, transaction_timestamp());
    v_jobs   bigint[];
    v_new    boolean[];
    v_lanes  text[];
    v_priorities smallint[];
    v_uniques  text[];   -- the keys of unique rules
    v_replaced boolean[];
    v_pending  integer[];
    v_parent   boolean[];
    v_doomed   bigint[];
    v_reasons  text[];
    v_tenant text := coalesce(current_setting('penstock.tenant', true), '');
    v_other  text;
BEGIN
    IF p_options ->> 'durable' = 'true' THEN
        PERFORM commit_durably_v1();
    END IF;
    -- Postgres accepts times, and an infinity, that Python cannot represent.
    IF (p_run_ats IS NOT NULL OR p_deadlines IS NOT NULL) AND EXISTS (
        SELECT FROM unnest(p_run_ats || p_deadlines) AS t (given)
         WHERE t.given < '1970-01-01 00:00+00' OR t.given >= '9999-01-01 00:00+00') THEN
        RAISE EXCEPTION 'A job''s run_at and deadline are from 1970-01-01 on and before 9999-01-01.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_tenant <> '' THEN
        SELECT t.tenant INTO v_other FROM unnest(p_tenants) AS t (tenant) WHERE t.tenant NOT IN ('', v_tenant) LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'A job of tenant "%" cannot be enqueued by tenant "%".', v_other, v_tenant
                USING ERRCODE = 'PS007', DETAIL = json_build_array(v_other, v_tenant)::text,
                      HINT = 'Leave the tenant out, or SET LOCAL penstock.tenant to the other one.';
        END IF;
        p_tenants := ARRAY(SELECT coalesce(nullif(t.tenant, ''), v_tenant)
                             FROM unnest(p_tasks, p_tenants) WITH ORDINALITY AS t (task, tenant, ord) ORDER BY t.ord);
    ELSIF row_security_active('job') THEN
        RAISE EXCEPTION 'No tenant is set, and row level security is on.'
            USING ERRCODE = 'PS008', HINT = 'SET LOCAL penstock.tenant to the tenant that the jobs belong to.';
    END IF;
    IF p_lanes IS NOT NULL OR p_limits IS NOT NULL OR (SELECT s.places FROM setting_version AS s) THEN
        SELECT w.lanes, w.priorities INTO v_lanes, v_priorities
          FROM assign_lanes_v1(p_tasks, p_args, p_queues, p_lanes, p_limits, p_priorities, p_tenants, p_subjects,
                               p_requested_bys, p_metas) AS w;
    END IF;
    IF p_keys IS NOT NULL THEN
        SELECT array_agg(h.job ORDER BY h.ord), array_agg(h.is_new ORDER BY h.ord)
          INTO v_jobs, v_new
          FROM claim_idempotency_keys_v1(p_keys, p_tenants, p_fingerprints, v_now) AS h;
    ELSIF p_uniques IS NOT NULL OR p_parents IS NOT NULL OR p_children IS NOT NULL THEN
        v_jobs := ARRAY(SELECT nextval('job_id_seq') FROM generate_subscripts(p_tasks, 1));
        v_new := array_fill(true, ARRAY[cardinality(p_tasks)]);
    END IF;
    IF p_uniques IS NOT NULL THEN
        SELECT u.keys, u.jobs, u.new, u.replaced INTO v_uniques, v_jobs, v_new, v_replaced
          FROM apply_unique_v1(p_uniques, p_tenants, p_keys, v_jobs, v_new, v_now) AS u;
    END IF;
    IF p_workflow IS NOT NULL THEN
        PERFORM join_workflow_v1(p_workflow, p_tenants);
    END IF;
    IF p_parents IS NOT NULL OR p_children IS NOT NULL THEN
        SELECT array_agg(d.pending ORDER BY d.ord), array_agg(d.has_children ORDER BY d.ord),
               array_agg(v_jobs[d.ord] ORDER BY d.ord) FILTER (WHERE d.is_doomed),
               array_agg(CASE WHEN d.is_stalled THEN 'parent_failed' END ORDER BY d.ord)
          INTO v_pending, v_parent, v_doomed, v_reasons
          FROM add_dependencies_v1(v_jobs, v_new, p_parents, p_children, p_workflow) AS d;
    END IF;
    IF p_batch IS NOT NULL THEN
        PERFORM join_batch_v1(p_batch, coalesce(cardinality(array_positions(v_new, true)), cardinality(p_tasks)), p_tenants,
                              (p_options ->> 'adder')::bigint);
    END IF;

    RETURN QUERY
    WITH given AS (
        SELECT g.*, coalesce(g.run_at, v_now + make_interval(secs => coalesce(g.delay, 0))) AS due
          FROM unnest(p_tasks, p_args, p_args_versions, p_queues, v_lanes,
                      coalesce(v_priorities, p_priorities), p_delays, p_run_ats, p_max_attempts, p_timeouts, p_tenants, p_subjects, p_requested_bys,
                      p_tags, p_metas, p_retries, p_deadlines, v_jobs, v_new, v_uniques, p_steps, v_pending, v_parent, v_reasons)
               WITH ORDINALITY
            AS g (task, args, args_version, queue, lane, priority, delay, run_at, max_attempts,
                  timeout, tenant, subject, requested_by, tags, meta, retry, deadline, job, is_new,
                  unique_key, step, pending, has_children, reason, ord)
    ), added AS (
        INSERT INTO job (id, state, created_at, run_at, ready_at, task, args, args_version, queue, lane,
                         priority, max_attempts, timeout, tenant, subject, requested_by, tags, meta,
                         retry, deadline, batch, workflow, step, unique_key, pending, has_children, reason)
        SELECT coalesce(g.job, nextval('job_id_seq')),
               CASE WHEN g.pending > 0 THEN 'blocked' WHEN g.due > v_now THEN 'scheduled' ELSE 'ready' END,
               v_now, g.due,
               CASE WHEN g.pending > 0 OR g.due > v_now THEN NULL ELSE coalesce(p_now, clock_timestamp()) END,
               g.task, g.args::jsonb, coalesce(g.args_version, 1), coalesce(g.queue, 'default'),
               coalesce(g.lane, ''), coalesce(g.priority, 0), coalesce(g.max_attempts, 5), g.timeout,
               coalesce(g.tenant, ''), g.subject, g.requested_by, CASE WHEN g.tags IS NOT NULL THEN
                   ARRAY(SELECT jsonb_array_elements_text(g.tags::jsonb)) END,
               g.meta::jsonb, g.retry::jsonb, g.deadline, p_batch, p_workflow, g.step, g.unique_key,
               coalesce(g.pending, 0), coalesce(g.has_children, false), g.reason
          FROM given AS g
         WHERE g.is_new IS DISTINCT FROM false
         ORDER BY g.ord
        RETURNING id, lane, priority
    )
    SELECT a.id, false, CASE WHEN v_lanes IS NOT NULL THEN a.lane END,
           CASE WHEN v_lanes IS NOT NULL THEN a.priority END
      FROM added AS a WHERE v_jobs IS NULL;

    IF v_jobs IS NOT NULL THEN
        RETURN QUERY
        SELECT k.job, NOT k.is_new, k.lane, k.priority
          FROM unnest(v_jobs, v_new, v_lanes, v_priorities) AS k (job, is_new, lane, priority);
    END IF;
    IF v_doomed IS NOT NULL THEN
        PERFORM finish_jobs_v1(v_doomed, NULL, array_fill('cancelled'::text, ARRAY[cardinality(v_doomed)]),
                               array_fill('parent_failed'::text, ARRAY[cardinality(v_doomed)]), NULL, NULL, NULL, NULL,
                               false, v_now);
    END IF;
    IF true = ANY (v_replaced) THEN
        PERFORM replace_jobs_v1(v_jobs, v_replaced, p_tasks, p_args, p_args_versions, p_queues, v_lanes,
                                coalesce(v_priorities, p_priorities), p_delays, p_run_ats, p_max_attempts, p_timeouts,
                                p_subjects, p_requested_bys, p_tags, p_metas, p_retries, p_deadlines, v_now);
    END IF;
    IF p_options ->> 'notify' = 'true' THEN
        PERFORM notify_enqueued_v1(p_queues, v_lanes, coalesce(v_priorities, p_priorities), p_delays, p_run_ats,
                                   cardinality(p_tasks), v_since, v_now);
        -- Claims skipped waiting jobs while they were locked here, so workers must look for them again.
        IF v_uniques IS NOT NULL THEN
            PERFORM notify_ready_v1(w.queue, w.lane, w.priority, w.ready_at)
               FROM (SELECT j.queue, j.lane, j.priority, j.ready_at, j.state FROM job AS j
                      WHERE j.id = ANY (ARRAY(SELECT g.job FROM unnest(v_jobs, v_new) AS g (job, is_new) WHERE NOT g.is_new))
                     OFFSET 0) AS w  -- finds them by id, not by the index of ready jobs
              WHERE w.state = 'ready';
        END IF;
    END IF;
END
$$;

CREATE FUNCTION penstock.ensure_partitions_v1(p_ahead integer DEFAULT 7, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_also date[] DEFAULT '{}'::date[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET lock_timeout TO '50ms'
    AS $_$
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
$_$;

CREATE FUNCTION penstock.event_lock_key_v1(p_tenant text, p_name text) RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT hashtextextended(format('%I event %L %L', current_schema(), p_tenant, p_name), 0);
$$;

CREATE FUNCTION penstock.expire_v1(p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.deadline <= v_now AND j.state <> 'running'
         ORDER BY j.deadline
         LIMIT p_limit
           FOR UPDATE SKIP LOCKED);
    IF cardinality(v_ids) = 0 THEN
        RETURN 0;
    END IF;
    RETURN finish_jobs_v1(v_ids, NULL, array_fill('cancelled'::text, ARRAY[cardinality(v_ids)]),
                          array_fill('expired'::text, ARRAY[cardinality(v_ids)]), NULL, NULL, NULL, NULL,
                          false, v_now);
END
$$;

CREATE FUNCTION penstock.expires_on_v1(p_ended date, p_days integer) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE
           WHEN p_days <= 14 THEN p_ended + p_days + 1
           WHEN p_days <= 90 THEN date_trunc('week', (p_ended + p_days)::timestamp)::date + 7
           ELSE (date_trunc('month', (p_ended + p_days)::timestamp) + interval '1 month')::date
           END;
$$;

CREATE FUNCTION penstock.explain_unsettled_v1(p_ids bigint[], p_tokens uuid[]) RETURNS TABLE(id bigint, token uuid, answer text)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_dates date[] := history_dates_v1(p_ids);
BEGIN
    RETURN QUERY
    SELECT g.id, g.token,
           CASE WHEN j.token = g.token THEN 'busy'
                WHEN h.state = 'cancelled' THEN 'cancelled'
                ELSE 'refused' END
      FROM unnest(p_ids, p_tokens) AS g (id, token)
      LEFT JOIN job AS j ON j.id = g.id AND j.id = ANY (p_ids)
      LEFT JOIN job_history AS h ON h.id = g.id AND h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates)
     WHERE g.token IS NULL
        OR (j.last_token IS DISTINCT FROM g.token AND h.last_token IS DISTINCT FROM g.token);
END
$$;

CREATE FUNCTION penstock.extend_own_workflow_v1(p_job bigint, p_token uuid, p_call integer, p_steps jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET lock_timeout TO '100ms'
    AS $$
#variable_conflict use_column
DECLARE
    v_workflow bigint;
BEGIN
    SELECT j.workflow INTO v_workflow FROM job AS j WHERE j.id = p_job AND j.token = p_token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_job USING ERRCODE = 'PS003';
    END IF;
    -- The workflow is locked before the job, in the same order as by extensions and retries.
    PERFORM 1 FROM workflow AS w WHERE w.id = v_workflow FOR NO KEY UPDATE;
    PERFORM 1 FROM job AS j WHERE j.id = p_job AND j.token = p_token FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_job USING ERRCODE = 'PS003';
    END IF;
    RETURN QUERY
    SELECT e.id, e.duplicate
      FROM extend_workflow_v1(v_workflow, p_steps, format('workflow %s, job %s, call %s: ', v_workflow, p_job, p_call), p_now,
                              '{"notify": true, "durable": true}') AS e;
END
$$;

CREATE FUNCTION penstock.extend_workflow_v1(p_workflow bigint, p_steps jsonb, p_scope text DEFAULT NULL::text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb) RETURNS TABLE(id bigint, duplicate boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_tenant text;
    v_names  jsonb;
    v        record;
BEGIN
    SELECT w.tenant INTO v_tenant FROM workflow AS w WHERE w.id = p_workflow;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no workflow %.', p_workflow
            USING ERRCODE = 'PS016', DETAIL = json_build_array(p_workflow::text)::text;
    END IF;
    v_names := resolve_steps_v1(p_workflow, ARRAY(
        SELECT DISTINCT e ->> 'step' FROM jsonb_array_elements(p_steps) AS s,
               jsonb_array_elements((s -> 'parents') || (s -> 'children')) AS e WHERE e ? 'step'));
    SELECT array_agg(g.r ->> 'task' ORDER BY g.ord) AS tasks,
           array_agg(coalesce(g.r -> 'args', '{}')::text ORDER BY g.ord) AS args,
           array_agg((g.r ->> 'args_version')::smallint ORDER BY g.ord) AS args_versions,
           array_agg(g.r ->> 'queue' ORDER BY g.ord) AS queues,
           array_agg(g.r ->> 'lane' ORDER BY g.ord) AS lanes,
           array_agg(g.r ->> 'limits' ORDER BY g.ord) AS limits,
           array_agg((g.r ->> 'priority')::smallint ORDER BY g.ord) AS priorities,
           array_agg((g.r ->> 'delay')::double precision ORDER BY g.ord) AS delays,
           array_agg((g.r ->> 'run_at')::timestamptz ORDER BY g.ord) AS run_ats,
           array_agg((g.r ->> 'max_attempts')::integer ORDER BY g.ord) AS max_attempts,
           array_agg((g.r ->> 'timeout')::double precision ORDER BY g.ord) AS timeouts,
           array_agg(coalesce(nullif(g.r ->> 'tenant', ''), v_tenant) ORDER BY g.ord) AS tenants,
           array_agg(g.r ->> 'subject' ORDER BY g.ord) AS subjects,
           array_agg(g.r ->> 'requested_by' ORDER BY g.ord) AS requested_bys,
           array_agg(g.r ->> 'tags' ORDER BY g.ord) AS tags,
           array_agg(g.r ->> 'meta' ORDER BY g.ord) AS metas,
           array_agg(g.r ->> 'retry' ORDER BY g.ord) AS retries,
           array_agg((g.r ->> 'deadline')::timestamptz ORDER BY g.ord) AS deadlines,
           array_agg(p_scope || (g.s ->> 'step') ORDER BY g.ord) AS keys,
           array_agg(sha256(convert_to(concat_ws(' ', g.r ->> 'task', g.r -> 'args'), 'UTF8')) ORDER BY g.ord) AS fingerprints,
           array_agg(g.s ->> 'step' ORDER BY g.ord) AS steps,
           array_agg(g.parents ORDER BY g.ord) AS parents,
           array_agg(g.children ORDER BY g.ord) AS children
      INTO v
      FROM (SELECT s.step AS s, s.step -> 'request' AS r, s.ord,
                   (SELECT jsonb_agg(CASE WHEN e ? 'step' THEN e - 'step' || jsonb_build_object('job', v_names -> (e ->> 'step')) ELSE e END)
                      FROM jsonb_array_elements(s.step -> 'parents') AS e)::text AS parents,
                   (SELECT jsonb_agg(CASE WHEN e ? 'step' THEN e - 'step' || jsonb_build_object('job', v_names -> (e ->> 'step')) ELSE e END)
                      FROM jsonb_array_elements(s.step -> 'children') AS e)::text AS children
              FROM jsonb_array_elements(p_steps) WITH ORDINALITY AS s (step, ord)) AS g;
    RETURN QUERY
    SELECT e.id, e.duplicate FROM enqueue_v1(
        p_tasks => v.tasks, p_args => v.args, p_args_versions => v.args_versions, p_queues => v.queues, p_lanes => v.lanes,
        p_limits => v.limits, p_priorities => v.priorities, p_delays => v.delays, p_run_ats => v.run_ats,
        p_max_attempts => v.max_attempts, p_timeouts => v.timeouts, p_tenants => v.tenants, p_subjects => v.subjects,
        p_requested_bys => v.requested_bys, p_tags => v.tags, p_metas => v.metas, p_retries => v.retries,
        p_deadlines => v.deadlines, p_keys => CASE WHEN p_scope IS NOT NULL THEN v.keys END,
        p_fingerprints => CASE WHEN p_scope IS NOT NULL THEN v.fingerprints END, p_workflow => p_workflow, p_steps => v.steps,
        p_parents => v.parents, p_children => v.children, p_now => p_now,
        p_options => p_options) AS e;
END
$$;

CREATE FUNCTION penstock.fence_v1(p_id bigint, p_token uuid, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_left double precision;
BEGIN
    PERFORM 1 FROM job AS j WHERE j.id = p_id AND j.token = p_token FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        IF EXISTS (SELECT FROM find_completed_v1(ARRAY[p_id], ARRAY[p_token])) THEN
            RAISE EXCEPTION 'Job % was completed by this attempt already.', p_id USING ERRCODE = 'PS004';
        END IF;
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_id USING ERRCODE = 'PS003';
    END IF;
    SELECT extract(epoch FROM l.expires_at - coalesce(p_now, clock_timestamp())) INTO v_left
      FROM job AS j JOIN lease AS l ON l.id = j.lease WHERE j.id = p_id;
    IF coalesce(v_left, 0) <= 0 THEN
        RAISE EXCEPTION 'The lease behind job % has expired.', p_id USING ERRCODE = 'PS001';
    END IF;
    -- The caller's own limit stays if it is stricter; 0 means that there is none.
    v_left := least(v_left, nullif(extract(epoch FROM
        current_setting('idle_in_transaction_session_timeout')::interval), 0)::double precision);
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(v_left * 1000)::bigint::text, true);
END
$$;

CREATE FUNCTION penstock.fill_bucket_v1(p_key text, p_now timestamp with time zone, OUT level double precision, OUT rate double precision, OUT burst double precision, OUT filled_at timestamp with time zone, OUT opens_in double precision, OUT booked double precision) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_bucket record;
    v_passed double precision;
BEGIN
    SELECT l.rate, l.burst INTO rate, burst FROM get_limit_v1(p_key) AS l;
    IF rate IS NULL THEN
        SELECT b.level, b.filled_at, b.closed_until, b.booked INTO v_bucket FROM bucket AS b WHERE b.key = p_key;
    ELSE
        LOOP
            SELECT b.level, b.filled_at, b.closed_until, b.booked INTO v_bucket
              FROM bucket AS b WHERE b.key = p_key FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO bucket (key, level, filled_at) VALUES (p_key, 'Infinity', coalesce(p_now, clock_timestamp()))
            ON CONFLICT ON CONSTRAINT bucket_pkey DO NOTHING;
        END LOOP;
    END IF;
    filled_at := coalesce(p_now, clock_timestamp());
    opens_in := greatest(0, extract(epoch FROM v_bucket.closed_until - filled_at));
    v_passed := greatest(0, extract(epoch FROM filled_at - v_bucket.filled_at));
    level := least(burst, v_bucket.level + rate * v_passed);
    -- A full bucket has enough for all who waited, unless it is closed.
    booked := CASE WHEN level < burst OR opens_in > 0 THEN v_bucket.booked - rate * v_passed END;
    IF v_bucket.filled_at > filled_at AND rate IS NOT NULL THEN
        UPDATE bucket AS b
           SET level = fill_bucket_v1.level, filled_at = fill_bucket_v1.filled_at, booked = fill_bucket_v1.booked
         WHERE b.key = p_key;
    END IF;
END
$$;

CREATE FUNCTION penstock.find_completed_v1(p_ids bigint[], p_tokens uuid[]) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    v_usual date := expires_on_v1((statement_timestamp() AT TIME ZONE 'UTC')::date, 7);
    v_found bigint[] := ARRAY(
        SELECT h.id FROM job_history AS h JOIN unnest(p_ids, p_tokens) AS g (id, token) ON g.id = h.id
         WHERE h.expires_on = v_usual AND h.id = ANY (p_ids) AND h.last_token = g.token AND h.state = 'completed');
    v_dates date[];
BEGIN
    RETURN QUERY SELECT f FROM unnest(v_found) AS f;
    IF cardinality(v_found) < cardinality(p_ids) THEN
        v_dates := history_dates_v1(ARRAY(SELECT g FROM unnest(p_ids) AS g EXCEPT SELECT f FROM unnest(v_found) AS f));
        RETURN QUERY
            SELECT h.id FROM job_history AS h JOIN unnest(p_ids, p_tokens) AS g (id, token) ON g.id = h.id
             WHERE h.expires_on = ANY (v_dates) AND h.id = ANY (p_ids) AND h.id <> ALL (v_found)
               AND h.last_token = g.token AND h.state = 'completed';
    END IF;
END
$$;

CREATE FUNCTION penstock.find_cycle_v1(p_start bigint) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_seen  bigint[] := '{}';
    v_from  bigint[] := '{}';
    v_level bigint[] := ARRAY[p_start];
    v_before bigint[];
    v_path  bigint[] := ARRAY[p_start];
BEGIN
    WHILE cardinality(v_level) > 0 AND NOT p_start = ANY (v_seen) LOOP
        SELECT coalesce(array_agg(n.child), '{}'), coalesce(array_agg(n.parent), '{}') INTO v_level, v_before
          FROM (SELECT DISTINCT ON (d.child) d.child, d.parent FROM dependency AS d
                 WHERE d.parent = ANY (v_level) AND d.child <> ALL (v_seen) ORDER BY d.child, d.parent) AS n;
        v_seen := v_seen || v_level;
        v_from := v_from || v_before;
    END LOOP;
    IF NOT p_start = ANY (v_seen) THEN
        RETURN NULL;
    END IF;
    LOOP
        v_path := v_from[array_position(v_seen, v_path[1])] || v_path;
        EXIT WHEN v_path[1] = p_start;
    END LOOP;
    RETURN v_path;
END
$$;

CREATE TABLE penstock.job (
    id bigint NOT NULL,
    lease bigint,
    batch bigint,
    workflow bigint,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    run_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ready_at timestamp with time zone,
    attempted_at timestamp with time zone,
    deadline timestamp with time zone,
    stuck_since timestamp with time zone,
    timeout double precision,
    token uuid,
    last_token uuid,
    begun_token uuid,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    max_attempts integer DEFAULT 5 NOT NULL,
    pending integer DEFAULT 0 NOT NULL,
    losses smallint DEFAULT 0 NOT NULL,
    max_losses smallint DEFAULT 3 NOT NULL,
    priority smallint DEFAULT 0 NOT NULL,
    args_version smallint DEFAULT 1 NOT NULL,
    has_children boolean DEFAULT false NOT NULL,
    suspect boolean DEFAULT false NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    queue text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    lane text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    tenant text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    subject text COLLATE pg_catalog."C",
    requested_by text COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    unique_key text COLLATE pg_catalog."C",
    tags text[],
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    meta jsonb,
    retry jsonb,
    errors jsonb,
    step text COLLATE pg_catalog."C",
    CONSTRAINT job_failures_within_attempts CHECK (((failures >= 0) AND (failures <= max_attempts))),
    CONSTRAINT job_json_in_shape CHECK (((jsonb_typeof(args) = 'object'::text) AND ((meta IS NULL) OR (jsonb_typeof(meta) = 'object'::text)) AND ((errors IS NULL) OR (jsonb_typeof(errors) = 'array'::text)))),
    CONSTRAINT job_losses_within_limit CHECK (((losses >= 0) AND (losses <= max_losses))),
    CONSTRAINT job_names_not_empty CHECK (((task <> ''::text) AND (queue <> ''::text))),
    CONSTRAINT job_numbers_in_range CHECK ((((priority >= '-100'::integer) AND (priority <= 100)) AND (attempt >= 0) AND (pending >= 0) AND (max_attempts >= 1) AND (max_losses >= 1) AND (args_version >= 1))),
    CONSTRAINT job_ready_has_ready_at CHECK (((state <> 'ready'::text) OR (ready_at IS NOT NULL))),
    CONSTRAINT job_running_has_lease_and_token CHECK ((((state = 'running'::text) = ((lease IS NOT NULL) AND (token IS NOT NULL) AND (attempted_at IS NOT NULL))) AND ((lease IS NULL) = (token IS NULL)))),
    CONSTRAINT job_state_is_live CHECK ((state = ANY (ARRAY['scheduled'::text, 'ready'::text, 'running'::text, 'blocked'::text]))),
    CONSTRAINT job_timeout_in_range CHECK (((timeout > (0)::double precision) AND (timeout <= ((366 * 86400))::double precision)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='5000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_analyze_scale_factor='0.2', autovacuum_vacuum_cost_limit='2000');

CREATE TABLE penstock.job_history (
    id bigint NOT NULL,
    batch bigint,
    workflow bigint,
    created_at timestamp with time zone NOT NULL,
    run_at timestamp with time zone NOT NULL,
    ready_at timestamp with time zone,
    attempted_at timestamp with time zone,
    finished_at timestamp with time zone NOT NULL,
    deadline timestamp with time zone,
    timeout double precision,
    last_token uuid,
    expires_on date NOT NULL,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    max_attempts integer NOT NULL,
    losses smallint NOT NULL,
    max_losses smallint NOT NULL,
    priority smallint NOT NULL,
    args_version smallint NOT NULL,
    has_children boolean NOT NULL,
    state text NOT NULL COLLATE pg_catalog."C",
    queue text NOT NULL COLLATE pg_catalog."C",
    lane text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    subject text COLLATE pg_catalog."C",
    requested_by text COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    unique_key text COLLATE pg_catalog."C",
    tags text[],
    args jsonb NOT NULL,
    meta jsonb,
    retry jsonb,
    errors jsonb,
    result jsonb,
    step text COLLATE pg_catalog."C",
    CONSTRAINT job_history_failures_within_attempts CHECK (((failures >= 0) AND (failures <= max_attempts))),
    CONSTRAINT job_history_losses_within_limit CHECK (((losses >= 0) AND (losses <= max_losses))),
    CONSTRAINT job_history_reason_given CHECK (((state = 'completed'::text) OR (reason IS NOT NULL))),
    CONSTRAINT job_history_state_is_final CHECK ((state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])))
)
PARTITION BY RANGE (expires_on);

CREATE VIEW penstock.job_all AS
 SELECT job.id,
    job.batch,
    job.workflow,
    job.created_at,
    job.run_at,
    job.ready_at,
    job.attempted_at,
    NULL::timestamp with time zone AS finished_at,
    job.deadline,
    job.stuck_since,
    job.timeout,
    job.last_token,
    job.attempt,
    job.failures,
    job.max_attempts,
    job.losses,
    job.max_losses,
    job.priority,
    job.args_version,
    job.has_children,
    job.state,
    job.queue,
    job.lane,
    job.task,
    job.tenant,
    job.subject,
    job.requested_by,
    job.reason,
    job.unique_key,
    job.tags,
    job.args,
    job.meta,
    job.retry,
    job.errors,
    NULL::jsonb AS result,
    NULL::date AS expires_on,
    job.step,
    job.pending
   FROM penstock.job
UNION ALL
 SELECT job_history.id,
    job_history.batch,
    job_history.workflow,
    job_history.created_at,
    job_history.run_at,
    job_history.ready_at,
    job_history.attempted_at,
    job_history.finished_at,
    job_history.deadline,
    NULL::timestamp with time zone AS stuck_since,
    job_history.timeout,
    job_history.last_token,
    job_history.attempt,
    job_history.failures,
    job_history.max_attempts,
    job_history.losses,
    job_history.max_losses,
    job_history.priority,
    job_history.args_version,
    job_history.has_children,
    job_history.state,
    job_history.queue,
    job_history.lane,
    job_history.task,
    job_history.tenant,
    job_history.subject,
    job_history.requested_by,
    job_history.reason,
    job_history.unique_key,
    job_history.tags,
    job_history.args,
    job_history.meta,
    job_history.retry,
    job_history.errors,
    job_history.result,
    job_history.expires_on,
    job_history.step,
    0 AS pending
   FROM penstock.job_history;

CREATE FUNCTION penstock.find_jobs_v1(p_ids bigint[]) RETURNS SETOF penstock.job_all
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_live  integer;
    v_dates date[];
BEGIN
    RETURN QUERY
    SELECT j.id, j.batch, j.workflow, j.created_at, j.run_at, j.ready_at, j.attempted_at, NULL::timestamptz,
           j.deadline, j.stuck_since, j.timeout, j.last_token, j.attempt, j.failures, j.max_attempts, j.losses, j.max_losses,
           j.priority, j.args_version, j.has_children, j.state, j.queue, j.lane, j.task, j.tenant, j.subject, j.requested_by,
           j.reason, j.unique_key, j.tags, j.args, j.meta, j.retry, j.errors, NULL::jsonb, NULL::date,
           j.step, j.pending
      FROM job AS j WHERE j.id = ANY (p_ids);
    GET DIAGNOSTICS v_live = ROW_COUNT;
    IF v_live = cardinality(p_ids) THEN
        RETURN;
    END IF;
    v_dates := history_dates_v1(p_ids);
    IF cardinality(v_dates) > 0 THEN
        RETURN QUERY
        SELECT h.id, h.batch, h.workflow, h.created_at, h.run_at, h.ready_at, h.attempted_at, h.finished_at,
               h.deadline, NULL::timestamptz, h.timeout, h.last_token, h.attempt, h.failures, h.max_attempts, h.losses, h.max_losses,
               h.priority, h.args_version, h.has_children, h.state, h.queue, h.lane, h.task, h.tenant, h.subject, h.requested_by,
               h.reason, h.unique_key, h.tags, h.args, h.meta, h.retry, h.errors, h.result, h.expires_on,
               h.step, 0
          FROM job_history AS h WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates);
    END IF;
END
$$;

CREATE FUNCTION penstock.finish_jobs_v1(p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_failures smallint[], p_losses smallint[], p_errors text[], p_results text[], p_settled boolean, p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    v_today    date := (p_now AT TIME ZONE 'UTC')::date;
    v_custom   boolean := EXISTS (SELECT FROM retention);
    v_usually  date := expires_on_v1(v_today, 7);
    v_failed   date := expires_on_v1(v_today, 30);
    v_finished integer;
    v_batches  bigint[];
    v_counts   text[];
    v_keyed    bigint[];
    v_parents  bigint[];
    v_states   text[];
    v_flows    bigint[];
    v_doomed   bigint[];
    v_waits    bigint[];
BEGIN
    WITH given AS (
        SELECT g.id, g.token, coalesce(g.state, 'completed') AS state, g.reason,
               coalesce(g.failure, 0) AS failure, coalesce(g.loss, 0) AS loss, g.error, g.result
          FROM unnest(p_ids, p_tokens, p_states, p_reasons, p_failures, p_losses, p_errors, p_results)
            AS g (id, token, state, reason, failure, loss, error, result)
         WHERE coalesce(g.state, 'completed') IN ('completed', 'failed', 'cancelled')
           AND (g.token IS NOT NULL OR NOT p_settled)
    ), gone AS (
        DELETE FROM job AS j
         USING given AS g
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token IS NOT DISTINCT FROM g.token
        RETURNING j.id, j.batch, j.workflow, j.created_at, j.run_at, j.ready_at, j.attempted_at,
                  j.deadline, j.timeout, j.token, j.last_token, j.attempt,
                  j.failures + g.failure AS failures, j.max_attempts,
                  j.losses + g.loss AS losses, j.max_losses, j.priority, j.args_version,
                  j.has_children, g.state, j.queue, j.lane, j.task, j.tenant, j.subject,
                  j.requested_by, g.reason, j.unique_key, j.tags, j.args, j.meta, j.retry,
                  j.errors, j.step, g.error, g.result, j.state = 'blocked' AND j.pending = 0 AS waits
    ), kept AS (
        INSERT INTO job_history (
            id, batch, workflow, created_at, run_at, ready_at, attempted_at, finished_at, deadline,
            timeout, last_token, expires_on, attempt, failures, max_attempts, losses, max_losses,
            priority, args_version, has_children, state, queue, lane, task, tenant, subject,
            requested_by, reason, unique_key, tags, args, meta, retry, errors, step, result)
        SELECT g.id, g.batch, g.workflow, g.created_at, g.run_at, g.ready_at, g.attempted_at, p_now,
               g.deadline, g.timeout,
               CASE WHEN p_settled THEN g.token ELSE g.last_token END,
               coalesce(
                   CASE WHEN v_custom THEN (SELECT expires_on_v1(v_today, r.days) FROM retention AS r
                     WHERE r.state = g.state AND r.queue IN (g.queue, '') AND r.tenant IN (g.tenant, '')
                     ORDER BY r.tenant = '', r.queue = ''
                     LIMIT 1) END,
                   CASE g.state WHEN 'failed' THEN v_failed ELSE v_usually END),
               g.attempt, g.failures, g.max_attempts, g.losses, g.max_losses, g.priority,
               g.args_version, g.has_children, g.state, g.queue, g.lane, g.task, g.tenant, g.subject,
               g.requested_by, g.reason, g.unique_key, g.tags, g.args, g.meta, g.retry,
               CASE WHEN g.error IS NULL THEN g.errors
                    ELSE coalesce(g.errors, '[]') || (g.error::jsonb || jsonb_build_object('at', p_now, 'began', g.attempted_at)) END,
               g.step, g.result::jsonb
          FROM gone AS g
    )
    -- Read from the deleted rows, which are at hand: returning it from the insert would cost every job.
    SELECT count(*), array_agg(g.batch) FILTER (WHERE g.batch IS NOT NULL),
           array_agg(g.state) FILTER (WHERE g.batch IS NOT NULL), array_agg(g.id) FILTER (WHERE g.unique_key IS NOT NULL),
           array_agg(g.id) FILTER (WHERE g.has_children), array_agg(g.state) FILTER (WHERE g.has_children),
           array_agg(g.workflow) FILTER (WHERE g.has_children), array_agg(g.id) FILTER (WHERE g.waits)
      INTO v_finished, v_batches, v_counts, v_keyed, v_parents, v_states, v_flows, v_waits
      FROM gone AS g;
    IF v_batches IS NOT NULL THEN
        INSERT INTO batch_delta (batch, pending, completed, failed, cancelled)
        SELECT e.batch, -count(*), count(*) FILTER (WHERE e.state = 'completed'),
               count(*) FILTER (WHERE e.state = 'failed'), count(*) FILTER (WHERE e.state = 'cancelled')
          FROM unnest(v_batches, v_counts) AS e (batch, state) GROUP BY e.batch;
    END IF;
    IF v_keyed IS NOT NULL THEN
        PERFORM release_unique_keys_v1(v_keyed, p_now);
    END IF;
    IF v_waits IS NOT NULL THEN
        -- Waits whose event is being sent are skipped. They are deleted when the job comes back, or by a sweep.
        DELETE FROM event_wait AS w
         WHERE w.ctid = ANY (ARRAY(
               SELECT o.ctid FROM event_wait AS o WHERE o.job = ANY (v_waits) FOR UPDATE SKIP LOCKED));
    END IF;
    IF v_parents IS NOT NULL THEN
        v_doomed := release_dependents_v1(v_parents, v_states, v_flows, p_now);
        IF v_doomed IS NOT NULL THEN
            PERFORM finish_jobs_v1(v_doomed, NULL, array_fill('cancelled'::text, ARRAY[cardinality(v_doomed)]),
                                   array_fill('parent_failed'::text, ARRAY[cardinality(v_doomed)]), NULL, NULL, NULL, NULL,
                                   false, p_now);
        END IF;
    END IF;
    RETURN v_finished;
END
$$;

CREATE FUNCTION penstock.fire_schedule_v1(p_schedule text, p_version bigint, p_start timestamp with time zone, p_missed timestamp with time zone, p_missed_ticks integer, p_ticks timestamp with time zone[], p_next_at timestamp with time zone, p_now timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_tick timestamptz;
    v      record;
BEGIN
    SELECT s.done_until, s.started_at, s.catch_up INTO v FROM schedule AS s
     WHERE s.name = p_schedule AND s.version = p_version AND s.paused_at IS NULL
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 'busy';
    END IF;
    IF p_start IS DISTINCT FROM v.started_at AND p_start <= v_now THEN
        PERFORM fire_tick_v1(p_schedule, p_start, 'start', 1, NULL, p_now);
        v.started_at := p_start;
    END IF;
    IF p_missed > v.done_until AND p_missed <= v_now THEN
        PERFORM fire_tick_v1(p_schedule, p_missed, 'tick', p_missed_ticks,
                             CASE v.catch_up WHEN 'skip' THEN 'missed' END, p_now);
        v.done_until := p_missed;
    END IF;
    FOREACH v_tick IN ARRAY p_ticks LOOP
        IF v_tick > v.done_until AND v_tick <= v_now THEN
            PERFORM fire_tick_v1(p_schedule, v_tick, 'tick', 1, NULL, p_now);
            v.done_until := v_tick;
        END IF;
    END LOOP;
    UPDATE schedule AS s
       SET done_until = v.done_until, started_at = v.started_at, next_at = p_next_at
     WHERE s.name = p_schedule;
    RETURN 'fired';
END
$$;

CREATE FUNCTION penstock.fire_schedules_v1(p_fires jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(name text, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    v record;
BEGIN
    PERFORM commit_durably_v1();
    FOR v IN SELECT f.name, f.version, f.start, f.missed, f.missed_ticks, f.ticks, f.next_at
               FROM jsonb_to_recordset(p_fires) AS f (
                    name text, version bigint, start timestamptz, missed timestamptz, missed_ticks integer,
                    ticks timestamptz[], next_at timestamptz) LOOP
        name := v.name;
        BEGIN
            answer := fire_schedule_v1(v.name, v.version, v.start, v.missed, v.missed_ticks, v.ticks, v.next_at, p_now);
        EXCEPTION WHEN OTHERS THEN
            answer := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.fire_tick_v1(p_schedule text, p_tick timestamp with time zone, p_kind text, p_ticks integer, p_why text, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $$
DECLARE
    v     record;
    v_job bigint;
    v_why text := p_why;
    v_due timestamptz;
BEGIN
    IF EXISTS (SELECT FROM schedule_fire AS f WHERE f.schedule = p_schedule AND f.tick = p_tick) THEN
        RETURN NULL;
    END IF;
    SELECT s.request, s.tenant, s.jitter, s.overlap INTO v FROM schedule AS s WHERE s.name = p_schedule;
    IF v_why IS NULL AND p_kind <> 'manual' THEN
        v_why := schedule_overlap_v1(p_schedule, v.overlap);
    END IF;
    IF v_why IS NULL THEN
        IF p_kind = 'tick' THEN
            v_due := p_tick + make_interval(secs => v.jitter
                * (hashtextextended(p_schedule || extract(epoch FROM p_tick), 0) & 2147483647) / 2147483648.0);
        END IF;
        v_job := enqueue_stored_v1(
            v.request, v.tenant, jsonb_build_object('schedule', p_schedule, 'tick', p_tick), v_due, p_now);
    END IF;
    INSERT INTO schedule_fire (schedule, tick, kind, ticks, job, why, fired_at)
    VALUES (p_schedule, p_tick, p_kind, p_ticks, v_job, v_why, coalesce(p_now, clock_timestamp()));
    RETURN v_job;
END
$$;

CREATE FUNCTION penstock.fold_batches_v1(p_batches bigint[], p_pace double precision, p_now timestamp with time zone, OUT moved integer, OUT passed integer) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_batches bigint[];
    v_batch   record;
    v_failed  bigint[];
    c_memory  constant double precision := 30;  -- the time over which a rate is averaged, in seconds
BEGIN
    -- Jobs of a batch that was swept may still be retried, and leave deltas.
    DELETE FROM batch_delta AS d
     WHERE d.batch = ANY (ARRAY(SELECT g.id FROM unnest(p_batches) AS g (id)
                                 WHERE NOT EXISTS (SELECT FROM batch AS b WHERE b.id = g.id)));
    v_batches := ARRAY(
        SELECT b.id FROM batch AS b
         WHERE b.id = ANY (p_batches)
           AND ((b.folded_at > p_now - make_interval(secs => p_pace) AND b.folded_at <= p_now) IS NOT TRUE
                OR (b.closed_at IS NOT NULL AND b.pending > 0
                    AND b.pending + (SELECT sum(d.pending) FROM batch_delta AS d WHERE d.batch = b.id) = 0))
         ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED);
    passed := cardinality(ARRAY(SELECT b.id FROM batch AS b WHERE b.id = ANY (p_batches) AND b.id <> ALL (v_batches)));
    WITH gone AS (
        DELETE FROM batch_delta AS d WHERE d.batch = ANY (v_batches)
        RETURNING d.batch, d.total, d.pending, d.completed, d.failed, d.cancelled, d.created_at
    ), sums AS (
        SELECT g.batch, sum(g.total) AS total, sum(g.pending) AS pending, sum(g.completed) AS completed,
               sum(g.failed) AS failed, sum(g.cancelled) AS cancelled, count(*) AS deltas,
               min(g.created_at) AS since,
               greatest(0, sum(g.completed + g.failed + g.cancelled)) AS ended,
               -- Even if the job has been retried since.
               bool_or(g.failed > 0) AS has_failed, bool_or(g.pending > 0) AS goes_on
          FROM gone AS g GROUP BY g.batch
    ), folded AS (
        UPDATE batch AS b
           SET total = b.total + s.total, pending = b.pending + s.pending, completed = b.completed + s.completed,
               failed = b.failed + s.failed, cancelled = b.cancelled + s.cancelled, folded_at = p_now,
               finished_at = CASE WHEN NOT s.goes_on THEN b.finished_at END,
               rate = CASE WHEN b.rate > 1e-9 THEN b.rate * a.fading ELSE 0 END + (1 - a.fading) * s.ended / a.seconds,
               rate_weight = b.rate_weight * a.fading + 1 - a.fading
          FROM sums AS s
         CROSS JOIN LATERAL (
               -- Time without pending jobs does not count for the rate.
               SELECT greatest(0.001, extract(epoch FROM p_now - CASE WHEN o.pending = 0 AND s.since <= p_now
                          THEN greatest(s.since, o.folded_at) ELSE coalesce(o.folded_at, o.created_at) END))::double precision AS seconds
                 FROM batch AS o WHERE o.id = s.batch) AS t
         -- A weight that is nearly zero counts as zero, because an underflow is an error.
         CROSS JOIN LATERAL (SELECT t.seconds, CASE WHEN t.seconds < 20 * c_memory THEN exp(-t.seconds / c_memory)
                                                    ELSE 0 END AS fading) AS a
         WHERE b.id = s.batch
        RETURNING b.id, s.deltas, s.has_failed
    )
    SELECT coalesce(sum(f.deltas), 0), coalesce(array_agg(f.id) FILTER (WHERE f.has_failed), '{}')
      INTO moved, v_failed FROM folded AS f;

    FOR v_batch IN
        SELECT m.* FROM (
            SELECT b.id, b.tenant, b.callbacks,
                   (b.failed > 0 OR b.id = ANY (v_failed)) AND b.failure_job IS NULL AND b.callbacks ? 'failure' AS has_failed,
                   b.pending = 0 AND b.closed_at IS NOT NULL AND b.finished_at IS NULL AS is_over,
                   b.completed = b.total AND b.cancelled_at IS NULL AS is_well
              FROM batch AS b WHERE b.id = ANY (v_batches)) AS m
         WHERE m.has_failed OR m.is_over
    LOOP
        BEGIN
            IF v_batch.has_failed THEN
                UPDATE batch AS b SET failure_job = enqueue_callback_v1(v_batch.id, v_batch.tenant, 'failure', v_batch.callbacks, p_now)
                 WHERE b.id = v_batch.id;
            END IF;
            IF NOT v_batch.is_over THEN
                CONTINUE;
            END IF;
            PERFORM 1 FROM batch AS b WHERE b.id = v_batch.id FOR UPDATE SKIP LOCKED;
            -- Earlier additions have left their deltas, and later ones wait for the lock.
            IF FOUND AND NOT EXISTS (SELECT FROM batch_delta AS d WHERE d.batch = v_batch.id) THEN
                UPDATE batch AS b
                   SET finished_at = p_now,
                       success_job = coalesce(b.success_job, CASE WHEN v_batch.is_well THEN
                           enqueue_callback_v1(v_batch.id, v_batch.tenant, 'success', v_batch.callbacks, p_now) END),
                       end_job = coalesce(b.end_job, enqueue_callback_v1(v_batch.id, v_batch.tenant, 'end', v_batch.callbacks, p_now))
                 WHERE b.id = v_batch.id;
            ELSE
                INSERT INTO batch_delta (batch) VALUES (v_batch.id);
                moved := moved - 1;
                passed := passed + 1;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            RAISE WARNING 'A callback of batch % cannot be enqueued: %', v_batch.id, SQLERRM;
            INSERT INTO batch_delta (batch) VALUES (v_batch.id);
            moved := moved - 1;  -- so that the caller does not fold again at once
        END;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.fold_v1(p_limit integer DEFAULT 100, p_after bigint DEFAULT 0, p_pace double precision DEFAULT 0, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(moved integer, passed integer, upto bigint, is_idle boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
DECLARE
    v_batches bigint[] := '{}';
    v_range   record;
BEGIN
    FOR v_range IN SELECT r.low, r.high FROM (VALUES (p_after, 9223372036854775807), (0, p_after)) AS r (low, high) LOOP
        v_batches := v_batches || ARRAY(
            WITH RECURSIVE found AS (
                (SELECT d.batch FROM batch_delta AS d
                  WHERE d.batch > v_range.low AND d.batch <= v_range.high ORDER BY d.batch LIMIT 1)
                UNION ALL
                SELECT (SELECT d.batch FROM batch_delta AS d
                         WHERE d.batch > f.batch AND d.batch <= v_range.high ORDER BY d.batch LIMIT 1)
                  FROM found AS f WHERE f.batch IS NOT NULL
            )
            SELECT f.batch FROM found AS f WHERE f.batch IS NOT NULL LIMIT p_limit - cardinality(v_batches));
    END LOOP;
    moved := 0;
    passed := 0;
    upto := coalesce(v_batches[cardinality(v_batches)], 0);
    IF cardinality(v_batches) > 0 THEN
        SELECT f.moved, f.passed INTO moved, passed
          FROM fold_batches_v1(v_batches, p_pace, coalesce(p_now, statement_timestamp())) AS f;
    END IF;
    is_idle := NOT EXISTS (SELECT FROM batch AS b WHERE b.finished_at IS NULL);
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.get_limit_v1(p_key text, OUT slots integer, OUT rate double precision, OUT burst double precision) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT l.slots, l.rate, l.burst
      FROM limit_setting AS l
     WHERE l.key = p_key OR right(l.key, 1) = '*' AND starts_with(p_key, left(l.key, -1))
     ORDER BY l.key = p_key DESC, length(l.key) DESC
     LIMIT 1;
$$;

CREATE FUNCTION penstock.grant_slots_v1(p_lease bigint, p_keys text[], p_wants integer[], p_uses integer[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(key text, slots integer, share integer)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
    v     record;
BEGIN
    IF current_setting('transaction_isolation') NOT LIKE 'read %' THEN
        RAISE EXCEPTION 'Slots are granted in a transaction that is read committed, not %.',
            current_setting('transaction_isolation') USING ERRCODE = 'invalid_transaction_state';
    END IF;
    PERFORM lock_grants_v1(p_keys);
    v_now := coalesce(p_now, clock_timestamp());
    IF NOT EXISTS (SELECT FROM lease AS l WHERE l.id = p_lease AND l.expires_at > v_now) THEN
        RAISE EXCEPTION 'Lease % has expired or was given up; ask with a new one.', p_lease
            USING ERRCODE = 'PS001';
    END IF;
    -- Grants of expired leases are deleted before their slots are granted again: otherwise a late heartbeat, which was
    -- under way when its lease expired, could renew the lease together with its grants.
    DELETE FROM "grant" AS g
     WHERE (g.key, g.lease) IN (
           SELECT o.key, o.lease FROM "grant" AS o
            WHERE o.key = ANY (p_keys) AND o.lease <> p_lease
              AND NOT EXISTS (SELECT FROM lease AS l WHERE l.id = o.lease AND l.expires_at > v_now)
              FOR UPDATE OF o SKIP LOCKED);
    FOR v IN
        WITH asked AS MATERIALIZED (
            SELECT a.key, a.want, a.uses, l.slots AS most
              FROM (SELECT g.key COLLATE "C" AS key, greatest(0, max(g.want)) AS want, greatest(0, max(g.uses)) AS uses
                      FROM unnest(p_keys, p_wants, p_uses) AS g (key, want, uses) GROUP BY 1) AS a
             CROSS JOIN LATERAL get_limit_v1(a.key) AS l
        ), held AS MATERIALIZED (
            SELECT g.key, g.lease, g.slots, g.wanted
              FROM "grant" AS g
             WHERE g.key = ANY (p_keys) AND g.lease <> p_lease
               AND EXISTS (SELECT FROM lease AS l WHERE l.id = g.lease AND l.expires_at > v_now)
        ), demand AS (
            SELECT d.key, d.lease, d.slots, d.wanted, a.most,
                   sum(d.wanted) OVER less - d.wanted AS smaller,
                   count(*) OVER (PARTITION BY d.key) - count(*) OVER less + 1 AS larger
              FROM (SELECT h.key, h.lease, h.slots, h.wanted FROM held AS h
                    UNION ALL SELECT a.key, p_lease, NULL, a.want FROM asked AS a) AS d
              JOIN asked AS a ON a.key = d.key
             WHERE d.wanted > 0
            WINDOW less AS (PARTITION BY d.key ORDER BY d.wanted, d.lease)
        ), scarce AS (
            -- Leases that want more than an equal part of what is left by those that want less.
            SELECT d.key, d.lease, count(*) OVER alike AS among, d.most - min(d.smaller) OVER alike AS remaining,
                   row_number() OVER (PARTITION BY d.key ORDER BY d.lease) + abs(hashtext(d.key)::bigint)
                       + div(extract(epoch FROM v_now), 10) * ((d.most - min(d.smaller) OVER alike) % count(*) OVER alike)
                       AS turn
              FROM demand AS d WHERE d.wanted * d.larger > d.most - d.smaller
            WINDOW alike AS (PARTITION BY d.key)
        ), part AS (
            SELECT d.key, d.lease, d.slots, coalesce(
                       div(s.remaining, s.among) + (s.turn % s.among < s.remaining % s.among)::integer, d.wanted)::integer AS part,
                   s.key IS NOT NULL AS is_short
              FROM demand AS d LEFT JOIN scarce AS s ON s.key = d.key AND s.lease = d.lease
        ), others AS (
            SELECT h.key, sum(h.slots)::integer AS slots, bool_or(h.slots < q.part) AS is_below,
                   bool_or(h.slots > q.part) AS is_above
              FROM held AS h LEFT JOIN part AS q ON q.key = h.key AND q.lease = h.lease
             GROUP BY h.key
        )
        SELECT a.key, a.most, a.want, mine.slots AS old_slots, mine.wanted AS old_want,
               coalesce(p.part, 0) AS part, CASE WHEN p.is_short THEN p.part ELSE a.most END AS share,
               greatest(a.uses, least(coalesce(p.part, 0), a.most - coalesce(o.slots, 0))) AS slots,
               coalesce(o.slots, 0) AS others, coalesce(o.is_below, false) AS is_below,
               coalesce(o.is_above, false) AS is_above
          FROM asked AS a
          LEFT JOIN part AS p ON p.key = a.key AND p.lease = p_lease
          LEFT JOIN "grant" AS mine ON mine.key = ANY (p_keys) AND mine.key = a.key AND mine.lease = p_lease
          LEFT JOIN others AS o ON o.key = a.key
         ORDER BY a.key
    LOOP
        IF v.most IS NULL OR v.slots + v.want = 0 THEN
            DELETE FROM "grant" AS g WHERE g.key = v.key AND g.lease = p_lease;
        ELSIF (v.slots, v.want) IS DISTINCT FROM (v.old_slots, v.old_want) THEN
            INSERT INTO "grant" AS g (key, lease, slots, wanted) VALUES (v.key, p_lease, v.slots, v.want)
            ON CONFLICT ON CONSTRAINT grant_pkey DO UPDATE SET slots = excluded.slots, wanted = excluded.wanted;
        END IF;
        -- A lease that has to wait notifies the others, because one may hold slots that it does not need.
        -- It does so only if its grant or its demand changed: otherwise two waiting leases would wake each other for ever.
        IF (v.slots, v.want) IS DISTINCT FROM (coalesce(v.old_slots, 0), coalesce(v.old_want, 0))
           AND (v.is_below AND v.others + v.slots < v.most OR v.is_above AND v.slots < v.part
                OR v.slots < v.want AND v.others > 0) THEN
            PERFORM pg_notify(current_schema() || '.grants', v.key);
        ELSIF v.slots = 0 AND v.want > 0 AND v.others > 0 AND cardinality(p_keys) <= 64 THEN
            -- Another lease may hold the slots by now. Only holders react to this message, so it wakes no waiting lease.
            PERFORM pg_notify(current_schema() || '.waits', v.key);
        END IF;
        key := v.key;
        slots := CASE WHEN v.most IS NOT NULL THEN v.slots END;
        share := v.share;
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.heartbeat_v1(p_lease bigint, p_ttl double precision, p_info jsonb DEFAULT NULL::jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(alive boolean, signals jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_signals jsonb;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE lease AS l
       SET renewed_at = v_now, expires_at = v_now + make_interval(secs => p_ttl),
           info = CASE WHEN p_info IS NULL THEN l.info ELSE l.info || p_info END
     WHERE l.id = p_lease AND l.expires_at > v_now;
    IF NOT FOUND THEN
        RETURN QUERY SELECT false, '[]'::jsonb;
        RETURN;
    END IF;
    WITH taken AS (
        DELETE FROM signal AS s WHERE s.lease = p_lease RETURNING s.job, s.token, s.kind
    )
    SELECT coalesce(jsonb_agg(jsonb_build_array(t.job, t.token, t.kind)), '[]') INTO v_signals FROM taken AS t;
    RETURN QUERY SELECT true, v_signals;
END
$$;

CREATE FUNCTION penstock.history_dates_v1(p_ids bigint[]) RETURNS date[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_left  bigint[] := ARRAY(SELECT g FROM unnest(p_ids) AS g EXCEPT SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids));
    v_days  date[];
    v_few   date[];
    v_found bigint[];
    v_on    date[];
    v_dates date[] := '{}';
BEGIN
    IF cardinality(v_left) > 0 THEN
        v_days := list_partitions_v1();
    END IF;
    FOR v_start IN 1..coalesce(cardinality(v_days), 0) BY 4 LOOP
        EXIT WHEN cardinality(v_left) = 0;
        v_few := v_days[v_start:v_start + 3];
        BEGIN
            SELECT array_agg(h.id), array_agg(DISTINCT h.expires_on) INTO v_found, v_on
              FROM job_history AS h
             WHERE (h.expires_on = ANY (v_few) OR array_position(v_few, NULL) IS NOT NULL) AND h.id = ANY (v_left);
            -- Only a subtransaction that fails releases its locks. What it found stays: variables are not rolled back.
            RAISE EXCEPTION USING ERRCODE = 'PS099';
        EXCEPTION WHEN SQLSTATE 'PS099' THEN
        END;
        IF v_found IS NOT NULL THEN
            v_dates := v_dates || v_on;
            v_left := ARRAY(SELECT l FROM unnest(v_left) AS l EXCEPT SELECT f FROM unnest(v_found) AS f);
        END IF;
    END LOOP;
    RETURN nullif(v_dates, '{}');
END
$$;

CREATE FUNCTION penstock.is_queue_paused_v1(p_queue text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL);
$$;

CREATE FUNCTION penstock.join_batch_v1(p_batch bigint, p_count integer, p_tenants text[], p_adder bigint DEFAULT NULL::bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_batch record;
    v_other text;
BEGIN
    SELECT b.tenant, b.closed_at INTO v_batch FROM batch AS b WHERE b.id = p_batch FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no batch %.', p_batch USING ERRCODE = 'PS011', DETAIL = json_build_array(p_batch::text)::text;
    END IF;
    IF v_batch.closed_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM job AS j WHERE j.id = p_adder AND j.batch = p_batch AND j.state = 'running') THEN
        RAISE EXCEPTION 'Batch % is closed: no job can be added to it any more.', p_batch
            USING ERRCODE = 'PS012', DETAIL = json_build_array(p_batch::text)::text, HINT = 'Add jobs before closing it, or begin another batch.';
    END IF;
    SELECT t.tenant INTO v_other FROM unnest(p_tenants) AS t (tenant) WHERE t.tenant <> v_batch.tenant LIMIT 1;
    IF v_batch.tenant <> '' AND (FOUND OR p_tenants IS NULL) THEN
        RAISE EXCEPTION 'A job of tenant "%" cannot be in a batch of tenant "%".', coalesce(v_other, ''), v_batch.tenant
            USING ERRCODE = 'PS007', DETAIL = json_build_array(coalesce(v_other, ''), v_batch.tenant)::text,
                  HINT = 'Enqueue it as that tenant, or make the batch without one.';
    END IF;
    INSERT INTO batch_delta (batch, total, pending) VALUES (p_batch, p_count, p_count);
END
$$;

CREATE FUNCTION penstock.join_workflow_v1(p_workflow bigint, p_tenants text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_tenant text;
    v_other  text;
BEGIN
    SELECT w.tenant INTO v_tenant FROM workflow AS w WHERE w.id = p_workflow FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no workflow %.', p_workflow
            USING ERRCODE = 'PS016', DETAIL = json_build_array(p_workflow::text)::text;
    END IF;
    -- Jobs that wait for each other read each other's results, so they must belong to one tenant.
    SELECT coalesce(t.tenant, '') INTO v_other FROM unnest(coalesce(p_tenants, ARRAY[''])) AS t (tenant)
     WHERE coalesce(t.tenant, '') <> v_tenant LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'A job of tenant "%" cannot be in a workflow of tenant "%".', v_other, v_tenant
            USING ERRCODE = 'PS007', DETAIL = json_build_array(v_other, v_tenant)::text,
                  HINT = 'All jobs of a workflow belong to its tenant.';
    END IF;
END
$$;

CREATE FUNCTION penstock.lane_key_v1(p_lane_key text, p_task text, p_tenant text, p_subject text, p_requested_by text, p_args text, p_meta text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN p_lane_key IS NULL OR p_lane_key = 'tenant' THEN p_tenant
                WHEN p_lane_key = 'task' THEN p_task
                WHEN p_lane_key = 'subject' THEN p_subject
                WHEN p_lane_key = 'requested_by' THEN p_requested_by
                WHEN starts_with(p_lane_key, 'args.') THEN p_args::jsonb ->> substring(p_lane_key FROM 6)
                WHEN starts_with(p_lane_key, 'meta.') THEN p_meta::jsonb ->> substring(p_lane_key FROM 6) END;
$$;

CREATE FUNCTION penstock.lane_v1(p_turn text, p_limits text, p_task_key text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT replace(left(p_turn, 200), E'\x1f', ' ') || CASE WHEN p_limits IS NULL AND p_task_key IS NULL THEN '' ELSE
        (SELECT coalesce(string_agg(E'\x1f' || k.key, '' ORDER BY k.key COLLATE "C"), '')
           FROM (SELECT replace(e.key, E'\x1f', ' ') AS key FROM jsonb_array_elements_text(p_limits::jsonb) AS e (key)
                 UNION SELECT p_task_key WHERE p_task_key IS NOT NULL) AS k) END;
$$;

CREATE FUNCTION penstock.lateness_v1(p_queue text, p_lane text, p_tenant text, p_run_at timestamp with time zone, p_now timestamp with time zone) RETURNS TABLE(late_after double precision, late double precision)
    LANGUAGE sql STABLE ROWS 1
    AS $$
    SELECT s.seconds,
           CASE WHEN p_now > p_run_at + make_interval(secs => s.seconds)
                THEN extract(epoch FROM p_now - p_run_at)::double precision - s.seconds END
      FROM (SELECT CASE WHEN EXISTS (SELECT FROM "penstock".queue AS q WHERE q.late_after IS NOT NULL)
                          OR EXISTS (SELECT FROM "penstock".lane_setting AS l WHERE l.late_after IS NOT NULL)
                          OR EXISTS (SELECT FROM "penstock".tenant_setting AS t WHERE t.late_after IS NOT NULL)
                          OR EXISTS (SELECT FROM "penstock".plan AS p WHERE p.late_after IS NOT NULL)
                   THEN coalesce(
                        (SELECT l.late_after FROM "penstock".lane_setting AS l
                          WHERE l.queue = p_queue AND l.lane = split_part(p_lane, E'\x1f', 1)),
                        (SELECT coalesce(t.late_after, p.late_after)
                           FROM "penstock".tenant_setting AS t LEFT JOIN "penstock".plan AS p ON p.name = t.plan
                          WHERE t.tenant = p_tenant),
                        (SELECT q.late_after FROM "penstock".queue AS q WHERE q.name = p_queue)) END AS seconds
             OFFSET 0) AS s;
$$;

CREATE FUNCTION penstock.list_due_schedules_v1(p_limit integer DEFAULT 100, p_except text[] DEFAULT '{}'::text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET jit TO 'off'
    AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_term timestamptz := (SELECT r.elected_at FROM leader AS r WHERE r.role = 'orchestration');
BEGIN
    RETURN (
        WITH known AS MATERIALIZED (
            SELECT DISTINCT n.name
              FROM lease AS l CROSS JOIN LATERAL jsonb_array_elements_text(l.info -> 'schedules') AS n (name)
             WHERE l.expires_at > v_now AND jsonb_typeof(l.info -> 'schedules') = 'array'
        ), active AS MATERIALIZED (
            SELECT s.name, s.next_at, coalesce(s.next_at <= v_now, true) AS is_due,
                   coalesce(s.on_start AND s.started_at IS DISTINCT FROM v_term AND v_term <= v_now, false) AS starts
              FROM schedule AS s
             WHERE s.paused_at IS NULL AND s.name <> ALL (p_except)
               AND (s.declared IS NULL OR s.name IN (SELECT k.name FROM known AS k))
        ), due AS (
            SELECT s.name, s.version, s.cron, s.every, s.timezone, s.anchor, s.done_until, s.catch_up,
                   CASE WHEN a.starts THEN v_term END AS start
              FROM active AS a JOIN schedule AS s ON s.name = a.name
             WHERE a.is_due OR a.starts
             ORDER BY a.next_at NULLS FIRST LIMIT p_limit
        )
        SELECT jsonb_build_object(
                   'now', v_now,
                   'due', coalesce((SELECT jsonb_agg(to_jsonb(d)) FROM due AS d), '[]'),
                   'next_in', (SELECT extract(epoch FROM min(a.next_at) - v_now) FROM active AS a
                                WHERE NOT a.is_due AND NOT a.starts)));
END
$$;

CREATE FUNCTION penstock.list_partitions_v1() RETURNS date[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'on'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $_$
DECLARE
    v_today date := (statement_timestamp() AT TIME ZONE 'UTC')::date;
    v_first date[] := ARRAY(
        SELECT expires_on_v1(v_today, k.days)
          FROM (SELECT 7 AS days UNION SELECT 30 UNION SELECT r.days FROM retention AS r) AS k);
BEGIN
    RETURN ARRAY(
        SELECT p.day
          FROM (SELECT CASE WHEN c.relname ~ '^job_history_[0-9]{8}$' THEN to_date(right(c.relname, 8), 'YYYYMMDD') END AS day
                  FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'job_history'::regclass) AS p
         ORDER BY p.day <> ALL (v_first), p.day);
END
$_$;

CREATE FUNCTION penstock.list_unserved_queues_v1(p_seconds double precision, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(queue text, seconds double precision)
    LANGUAGE sql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
    WITH RECURSIVE line AS (
        (SELECT j.queue FROM job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
        UNION ALL
        SELECT (SELECT j.queue FROM job AS j
                 WHERE j.state = 'ready' AND j.queue > l.queue ORDER BY j.queue LIMIT 1)
          FROM line AS l WHERE l.queue IS NOT NULL
    ), served AS MATERIALIZED (
        SELECT DISTINCT s.queue
          FROM lease AS l
         CROSS JOIN LATERAL jsonb_object_keys(
               CASE jsonb_typeof(l.info -> 'queues') WHEN 'object' THEN l.info -> 'queues' ELSE '{}' END) AS s (queue)
         WHERE l.expires_at > coalesce(p_now, statement_timestamp())
    ), alone AS MATERIALIZED (
        SELECT l.queue
          FROM (SELECT queue FROM line WHERE queue IS NOT NULL LIMIT p_limit) AS l
         WHERE l.queue NOT IN (SELECT s.queue FROM served AS s) AND NOT is_queue_paused_v1(l.queue)
    )
    SELECT a.queue, o.seconds
      FROM alone AS a
     CROSS JOIN LATERAL (
           SELECT extract(epoch FROM coalesce(p_now, statement_timestamp()) - min(s.ready_at))::double precision
             FROM scan_lanes_v1(a.queue, '', 100) AS s) AS o (seconds)
     WHERE o.seconds >= p_seconds
     ORDER BY o.seconds DESC, a.queue;
$$;

CREATE FUNCTION penstock.lock_attempt_v1(p_job bigint, p_token uuid) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET lock_timeout TO '100ms'
    AS $$
DECLARE
    v_tenant text;
BEGIN
    SELECT j.tenant INTO v_tenant FROM job AS j WHERE j.id = p_job AND j.token = p_token FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_job USING ERRCODE = 'PS003';
    END IF;
    RETURN v_tenant;
END
$$;

CREATE FUNCTION penstock.lock_event_waits_v1(p_jobs bigint[], p_now timestamp with time zone) RETURNS TABLE(job bigint, state text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_jobs  bigint[];
    v_steps text[];
BEGIN
    SELECT coalesce(array_agg(h.job), '{}'), coalesce(array_agg(h.step), '{}') INTO v_jobs, v_steps
      FROM (SELECT w.job, w.step FROM event_wait AS w WHERE w.job = ANY (p_jobs) FOR UPDATE SKIP LOCKED) AS h;
    RETURN QUERY
    SELECT g.job,
           CASE WHEN count(w.job) = 0 THEN 'ready'
                WHEN bool_or(w.woken OR w.until <= p_now OR EXISTS (
                     SELECT FROM event AS e
                      WHERE e.tenant = w.tenant AND e.name = w.name AND e.id > w.after_event
                        AND e.expires_at > p_now)) THEN 'ready'
                WHEN bool_or(h.job IS NULL) THEN 'scheduled'
                ELSE 'blocked' END
      FROM unnest(p_jobs) AS g (job)
      LEFT JOIN event_wait AS w ON w.job = g.job AND w.job = ANY (p_jobs)
      LEFT JOIN unnest(v_jobs, v_steps) AS h (job, step) ON h.job = w.job AND h.step = w.step
     GROUP BY g.job;
END
$$;

CREATE FUNCTION penstock.lock_grants_v1(p_keys text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_lock bigint;
BEGIN
    FOR v_lock IN
        SELECT DISTINCT hashtextextended(current_database() || '.' || current_schema() || '.grant.' || k.key, 0)
          FROM unnest(p_keys) AS k (key) ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(v_lock);
    END LOOP;
END
$$;

CREATE FUNCTION penstock.mark_outcome_lost_v1(p_ids bigint[], p_tokens uuid[], p_error text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, lost boolean)
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT l.id, l.lost
      FROM mark_worker_lost_v1(p_ids, p_tokens, 'unwritten', 'OutcomeUnwritten',
                               'The attempt ended, and its outcome could not be written: ' || p_error, true,
                               coalesce(p_now, statement_timestamp())) AS l
     WHERE l.lost IS NOT NULL;
$$;

CREATE FUNCTION penstock.mark_started_v1(p_ids bigint[], p_tokens uuid[]) RETURNS TABLE(token uuid, marked boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM commit_durably_v1();
    RETURN QUERY
    WITH free AS (
        SELECT j.id
          FROM unnest(p_ids, p_tokens) AS g (id, token)
          JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
           FOR NO KEY UPDATE OF j SKIP LOCKED
    ), marked AS (
        UPDATE job AS j SET begun_token = j.token
         WHERE j.id = ANY (ARRAY(SELECT f.id FROM free AS f))
        RETURNING j.token
    )
    SELECT j.token, m.token IS NOT NULL
      FROM unnest(p_ids, p_tokens) AS g (id, token)
      JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
      LEFT JOIN marked AS m ON m.token = j.token;
END
$$;

CREATE FUNCTION penstock.mark_worker_lost_v1(p_ids bigint[], p_tokens uuid[], p_kind text, p_type text, p_message text, p_has_begun boolean, p_now timestamp with time zone) RETURNS TABLE(id bigint, lost boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_job    record;
    v_reason text := CASE p_kind WHEN 'unwritten' THEN 'unwritten' ELSE 'worker_lost' END;
    v_errors jsonb;
    v_ids    bigint[] := '{}';
    v_lost   boolean[] := '{}';
    v_middle integer := cardinality(p_ids) / 2;
    v_table  text;
    v_check  text;
BEGIN
    FOR v_job IN
        SELECT j.id, j.token, j.queue, j.lane, j.priority, j.losses, j.max_losses,
               coalesce(j.errors, '[]') AS errors, p_has_begun OR (j.begun_token = j.token) IS TRUE AS counts,
               jsonb_build_object(
                   'attempt', j.attempt, 'kind', p_kind, 'type', p_type,
                   'worker', coalesce((SELECT l.worker FROM lease AS l WHERE l.id = j.lease),
                                      'lease ' || j.lease),
                   'message', p_message, 'traceback', '') AS error
          FROM unnest(p_ids, p_tokens) AS g (id, token)
          JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
         ORDER BY j.id
           FOR UPDATE OF j SKIP LOCKED
    LOOP
        lost := v_job.counts AND v_job.losses + 1 >= v_job.max_losses;
        IF lost THEN
            PERFORM finish_jobs_v1(ARRAY[v_job.id], ARRAY[v_job.token], ARRAY['failed'], ARRAY[v_reason],
                                   NULL, ARRAY[1::smallint], ARRAY[v_job.error::text], NULL, false, p_now);
        ELSE
            IF NOT v_job.counts THEN
                v_job.error := v_job.error || jsonb_build_object('message',
                    p_message || ' No loss is counted: nobody knows whether it had begun.');
                SELECT v_job.errors - (min(e.ord) - 1)::integer INTO v_errors
                  FROM jsonb_array_elements(v_job.errors) WITH ORDINALITY AS e (error, ord)
                 WHERE e.error ->> 'type' = p_type
                HAVING count(*) >= 10;
                v_job.errors := coalesce(v_errors, v_job.errors);
            END IF;
            UPDATE job AS j
               SET state = 'ready', lease = NULL, token = NULL, suspect = true,
                   losses = j.losses + CASE WHEN v_job.counts THEN 1 ELSE 0 END,
                   reason = v_reason, errors = v_job.errors || (v_job.error
                       || jsonb_build_object('at', p_now, 'began', j.attempted_at)),
                   ready_at = clock_timestamp()
             WHERE j.id = v_job.id AND j.token = v_job.token;
            PERFORM notify_ready_v1(v_job.queue, v_job.lane, v_job.priority, statement_timestamp());
        END IF;
        v_ids := v_ids || v_job.id;
        v_lost := v_lost || lost;
    END LOOP;
    RETURN QUERY SELECT t.id, t.lost FROM unnest(v_ids, v_lost) AS t (id, lost);
EXCEPTION WHEN OTHERS THEN
    -- Errors that concern every statement, and transient ones, are for the caller.
    IF left(SQLSTATE, 2) IN ('25', '40', '53', '55', '57', '58') THEN
        RAISE;
    END IF;
    IF v_middle = 0 THEN
        RAISE WARNING 'Job % of a lost worker can be neither made ready nor failed: %', p_ids[1], SQLERRM;
        GET STACKED DIAGNOSTICS v_table = TABLE_NAME, v_check = CONSTRAINT_NAME;
        IF SQLSTATE = '23514' AND v_table = 'job_history' AND v_check = '' THEN
            RETURN QUERY SELECT p_ids[1], NULL::boolean;
        END IF;
        RETURN;
    END IF;
    RETURN QUERY SELECT l.id, l.lost FROM mark_worker_lost_v1(p_ids[:v_middle], p_tokens[:v_middle],
        p_kind, p_type, p_message, p_has_begun, p_now) AS l;
    RETURN QUERY SELECT l.id, l.lost FROM mark_worker_lost_v1(p_ids[v_middle + 1:], p_tokens[v_middle + 1:],
        p_kind, p_type, p_message, p_has_begun, p_now) AS l;
END
$$;

CREATE FUNCTION penstock.match_jobs_v1(p_states text[], p_queue text, p_task text, p_tenant text, p_subject text, p_tag text, p_batch bigint, p_workflow bigint, p_above bigint, p_below bigint, p_until timestamp with time zone, p_day date, p_at timestamp with time zone, p_id bigint, p_limit integer) RETURNS TABLE(id bigint, day date, at timestamp with time zone, until timestamp with time zone)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $_$
DECLARE
    v_until  timestamptz := least(p_until, statement_timestamp());
    -- With the bare column id the planner would walk the primary key, past all other jobs. The index of batches is in the
    -- order of ids; a range that covers one batch keeps the planner on it.
    v_id     text := CASE WHEN p_batch IS NULL AND (p_workflow IS NOT NULL OR p_subject IS NOT NULL)
                          THEN 'j.id + 0' ELSE 'j.id' END;
    v_below  text := CASE WHEN p_batch IS NULL THEN v_id || ' < ' ELSE 'j.batch >= $7 AND (j.batch, j.id) < ($7, ' END;
    v_end    text := CASE WHEN p_batch IS NULL THEN '' ELSE ')' END;
    v_order  text := CASE WHEN p_batch IS NULL THEN '' ELSE 'j.batch DESC, ' END || v_id || ' DESC';
    v_filter text := '
           AND ($1 IS NULL OR j.state = ANY ($1)) AND ($2 IS NULL OR j.queue = $2) AND ($3 IS NULL OR j.task = $3)
           AND ($4 IS NULL OR j.tenant = $4) AND ($5 IS NULL OR j.subject = $5) AND ($6 IS NULL OR $6 = ANY (j.tags))
           AND ($8 IS NULL OR j.workflow = $8) AND ' || v_id || ' > $9 AND ' || v_below || '$10' || v_end;
    v_first  bigint := coalesce(p_above, -9223372036854775808);
    v_last   bigint := coalesce(p_below, 9223372036854775807);
    v_days   date[];
    v_day    date;
    v_left   integer := p_limit;
    v_found  integer;
BEGIN
    IF p_day IS NULL AND (p_states IS NULL OR p_states && ARRAY['scheduled', 'ready', 'running', 'blocked']) THEN
        RETURN QUERY EXECUTE format(
            'SELECT j.id, NULL::date, NULL::timestamptz, $11 FROM job AS j WHERE true %s ORDER BY %s LIMIT $12', v_filter, v_order)
            USING p_states, p_queue, p_task, p_tenant, p_subject, p_tag, p_batch, p_workflow, v_first,
                  least(v_last, p_id), v_until, v_left;
        GET DIAGNOSTICS v_found = ROW_COUNT;
        v_left := v_left - v_found;
    END IF;
    IF v_left = 0 OR NOT p_states && ARRAY['completed', 'failed', 'cancelled'] THEN
        RETURN;
    END IF;
    -- A partition that somebody created by hand has no day. It comes last.
    v_days := ARRAY(SELECT coalesce(d, '-infinity') FROM unnest(list_partitions_v1()) AS d);
    FOR v_day IN SELECT d FROM unnest(v_days) AS d WHERE p_day IS NULL OR d <= p_day ORDER BY d DESC LOOP
        RETURN QUERY EXECUTE format(
            'SELECT j.id, $13, j.finished_at, $11 FROM job_history AS j WHERE %s AND j.finished_at < $11 %s %s LIMIT $12',
            CASE v_day WHEN '-infinity' THEN 'j.expires_on <> ALL ($16)' ELSE 'j.expires_on = $13' END, v_filter,
            CASE WHEN p_states = ARRAY['failed'] AND v_order = 'j.id DESC'
                 THEN $q$AND j.state = 'failed' AND (j.finished_at, j.id) < ($14, $15) ORDER BY j.finished_at DESC, j.id DESC$q$
                 ELSE 'AND ' || v_below || '$15' || v_end || ' ORDER BY ' || v_order END)
            USING p_states, p_queue, p_task, p_tenant, p_subject, p_tag, p_batch, p_workflow, v_first, v_last, v_until, v_left,
                  v_day, CASE WHEN v_day = p_day THEN p_at ELSE 'infinity' END,
                  CASE WHEN v_day = p_day THEN p_id ELSE 9223372036854775807 END, v_days;
        GET DIAGNOSTICS v_found = ROW_COUNT;
        v_left := v_left - v_found;
        EXIT WHEN v_left = 0;
    END LOOP;
END
$_$;

CREATE FUNCTION penstock.move_to_lanes_v1(p_ids bigint[], p_tokens uuid[], p_lanes text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
    WITH moved AS (
        UPDATE job AS j
           SET state = 'ready', lane = g.lane, lease = NULL, token = NULL, last_token = j.token,
               ready_at = coalesce(p_now, clock_timestamp())
          FROM unnest(p_ids, p_tokens, p_lanes) AS g (id, token, lane)
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
        RETURNING j.queue, j.lane, j.priority, j.ready_at
    ), told AS (
        SELECT notify_ready_v1(m.queue, m.lane, m.priority, min(m.ready_at))
          FROM moved AS m GROUP BY m.queue, m.lane, m.priority
    )
    SELECT ((SELECT count(*) FROM moved) + 0 * (SELECT count(*) FROM told))::integer;
$$;

CREATE FUNCTION penstock.notify_due_v1(p_run_at timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT pg_notify(current_schema() || '.due', extract(epoch FROM p_run_at)::text);
$$;

CREATE FUNCTION penstock.notify_enqueued_v1(p_queues text[], p_lanes text[], p_priorities smallint[], p_delays double precision[], p_run_ats timestamp with time zone[], p_count integer, p_ready_at timestamp with time zone, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    v_count integer := p_count;
BEGIN
    IF p_queues IS NULL AND p_lanes IS NULL AND p_priorities IS NULL AND p_delays IS NULL AND p_run_ats IS NULL THEN
        v_count := 1;  -- All jobs are in one lane with one priority.
    END IF;
    WITH given AS MATERIALIZED (
        SELECT coalesce(g.queue, 'default') AS queue, coalesce(g.lane, '') AS lane,
               coalesce(g.priority, 0::smallint) AS priority,
               coalesce(g.run_at, p_now + make_interval(secs => coalesce(g.delay, 0))) AS due
          FROM unnest(p_queues, p_lanes, p_priorities, p_delays, p_run_ats,
                      array_fill(0, ARRAY[v_count]))
            AS g (queue, lane, priority, delay, run_at, pad)
    ), line AS MATERIALIZED (
        SELECT DISTINCT g.queue, g.lane, g.priority FROM given AS g WHERE g.due <= p_now
    ), told AS (
        SELECT notify_ready_v1(l.queue, l.lane, l.priority, p_ready_at)
          FROM line AS l WHERE (SELECT count(*) FROM line) <= 64
        UNION ALL
        SELECT notify_ready_v1(l.queue, NULL, max(l.priority), p_ready_at)
          FROM line AS l WHERE (SELECT count(*) FROM line) > 64 GROUP BY l.queue
        UNION ALL
        SELECT notify_due_v1(min(g.due)) FROM given AS g WHERE g.due > p_now HAVING count(*) > 0
    )
    SELECT count(*) INTO v_count FROM told;
    RETURN v_count;
END
$$;

CREATE FUNCTION penstock.notify_ready_v1(p_queue text, p_lane text, p_priority smallint, p_ready_at timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT pg_notify(
        current_schema() || '.ready',
        json_build_array(p_queue, p_lane, p_priority, extract(epoch FROM p_ready_at))::text
    );
$$;

CREATE FUNCTION penstock.only_failed_v1(p_ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    v_dates date[] := history_dates_v1(p_ids);
    v_dead  bigint[];
BEGIN
    -- In the order of ids, so that two calls with the same jobs do not deadlock. An optimization fence keeps the check
    -- of the state apart: next to the ids it would lead the planner to the index of all failed jobs.
    v_dead := ARRAY(
        WITH named AS MATERIALIZED (
            SELECT h.id, h.state FROM job_history AS h WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) ORDER BY h.id FOR UPDATE
        )
        SELECT n.id FROM named AS n WHERE n.state = 'failed');
    RETURN ARRAY(SELECT g.id FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
                  WHERE g.id = ANY (v_dead) ORDER BY g.ord);
END
$$;

CREATE FUNCTION penstock.open_bucket_v1(p_key text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
BEGIN
    UPDATE bucket AS b SET closed_until = NULL, booked = NULL
     WHERE b.key = p_key AND b.closed_until > coalesce(p_now, clock_timestamp());
    IF FOUND THEN
        PERFORM pg_notify(current_schema() || '.buckets', json_build_array(p_key, 0)::text);
    END IF;
    RETURN FOUND;
END
$$;

CREATE FUNCTION penstock.open_lease_v1(p_worker text, p_ttl double precision, p_info jsonb DEFAULT '{}'::jsonb, p_kind text DEFAULT 'worker'::text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
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

CREATE FUNCTION penstock.promote_v1(p_after timestamp with time zone DEFAULT '-infinity'::timestamp with time zone, p_limit integer DEFAULT 2000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(promoted integer, upto timestamp with time zone, next_in double precision)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
BEGIN
    WITH up AS (
        UPDATE job AS j
           SET state = 'ready', ready_at = coalesce(p_now, clock_timestamp())
         WHERE j.id = ANY (ARRAY(
               SELECT s.id FROM job AS s
                WHERE s.state = 'scheduled' AND s.run_at >= p_after AND s.run_at <= v_now
                ORDER BY s.run_at
                LIMIT p_limit
                  FOR NO KEY UPDATE SKIP LOCKED))
        RETURNING j.queue, j.lane, j.priority, j.ready_at, j.run_at
    ), told AS (
        SELECT notify_ready_v1(u.queue, u.lane, u.priority, min(u.ready_at))
          FROM up AS u GROUP BY u.queue, u.lane, u.priority
    )
    SELECT count(*)::integer, coalesce(max(u.run_at), p_after) + 0 * ((SELECT count(*) FROM told) * interval '1 s')
      INTO promoted, upto FROM up AS u;
    SELECT extract(epoch FROM s.run_at - v_now)::double precision INTO next_in
      FROM job AS s
     WHERE s.state = 'scheduled' AND s.run_at >= upto
     ORDER BY s.run_at
     LIMIT 1;
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.purge_v1(p_ids bigint[]) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_dead bigint[] := only_failed_v1(p_ids);
BEGIN
    PERFORM delete_v1(v_dead);
    RETURN QUERY
    SELECT g.id, CASE WHEN g.id = ANY (v_dead) THEN 'deleted' ELSE coalesce(a.state, 'missing') END
      FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
      LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id
     ORDER BY g.ord;
END
$$;

CREATE FUNCTION penstock.read_parents_v1(p_job bigint, p_token uuid) RETURNS TABLE(id bigint, step text, task text, state text, reason text, result jsonb, error text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_workflow bigint;
    v_parents  bigint[];
BEGIN
    SELECT j.workflow INTO v_workflow FROM job AS j WHERE j.id = p_job AND j.token = p_token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_job USING ERRCODE = 'PS003';
    END IF;
    v_parents := ARRAY(SELECT d.parent FROM dependency AS d WHERE d.child = p_job AND d.workflow = v_workflow);
    RETURN QUERY
    SELECT a.id, a.step, a.task, a.state, a.reason, a.result,
           CASE WHEN a.state <> 'completed' AND a.errors -> -1 ->> 'kind' IS DISTINCT FROM 'rerun' THEN (a.errors -> -1 ->> 'type') || ': ' || (a.errors -> -1 ->> 'message') END
      FROM find_jobs_v1(v_parents) AS a WHERE a.workflow = v_workflow ORDER BY a.id;
END
$$;

CREATE FUNCTION penstock.read_rules_v1(p_queues text[]) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT jsonb_build_object(
        'version', (SELECT v.version FROM setting_version AS v),
        'queues', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'name', q.name, 'by_tenant', q.fair AND coalesce(q.lane_key, 'tenant') = 'tenant',
                       'ageing', q.ageing, 'open', q.paused_at IS NULL AND w.open, 'changes_in', w.changes_in)), '[]')
              FROM queue AS q
             CROSS JOIN LATERAL check_windows_v1(q.windows, statement_timestamp()) AS w
             WHERE q.name = ANY (p_queues)),
        'lanes', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'queue', s.queue, 'lane', s.lane, 'weight', s.weight,
                       'open', s.paused_at IS NULL AND w.open, 'changes_in', w.changes_in)), '[]')
              FROM lane_setting AS s
             CROSS JOIN LATERAL check_windows_v1(s.windows, statement_timestamp()) AS w
             WHERE s.queue = ANY (p_queues)),
        'plans', (
            SELECT coalesce(jsonb_agg(jsonb_build_object('tenant', t.tenant, 'weight', p.weight)), '[]')
              FROM tenant_setting AS t JOIN plan AS p ON p.name = t.plan
             WHERE p.weight <> 1),
        'limits', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'key', l.key, 'slots', l.slots, 'rate', l.rate, 'burst', l.burst)), '[]')
              FROM limit_setting AS l));
$$;

CREATE FUNCTION penstock.read_rules_version_v1() RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    SELECT v.version FROM setting_version AS v;
$$;

CREATE FUNCTION penstock.read_steps_v1(p_job bigint, p_token uuid) RETURNS TABLE(kind text, name text, result jsonb)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM job AS j WHERE j.id = p_job AND j.token = p_token) THEN
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_job USING ERRCODE = 'PS003';
    END IF;
    RETURN QUERY SELECT s.kind, s.name, s.result FROM step AS s WHERE s.job = p_job;
END
$$;

CREATE FUNCTION penstock.recall_step_v1(p_job bigint, p_token uuid, p_name text, p_key bytea, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS jsonb
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_tenant text := lock_attempt_v1(p_job, p_token);
    v_used   timestamptz;
    v_result jsonb;
BEGIN
    SELECT c.result, c.used_at INTO v_result, v_used FROM step_cache AS c
     WHERE c.tenant = v_tenant AND c.key = p_key AND c.expires_at > v_now;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- An hour is exact enough to find unused results, and avoids a write for each use.
    IF v_used < v_now - interval '1 hour' THEN
        UPDATE step_cache AS c SET used_at = v_now WHERE c.tenant = v_tenant AND c.key = p_key;
    END IF;
    PERFORM save_step_v1(p_job, p_token, 'step', p_name, v_result, v_now);
    RETURN v_result;
END
$$;

CREATE FUNCTION penstock.redrive_v1(p_ids bigint[], p_spacing double precision DEFAULT NULL::double precision, p_start timestamp with time zone DEFAULT NULL::timestamp with time zone, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, answer text, due timestamp with time zone)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_start timestamptz := greatest(p_start, coalesce(p_now, statement_timestamp()));
    v_dead  bigint[] := only_failed_v1(p_ids);
    v_held  bigint[];
BEGIN
    v_held := ARRAY(SELECT r.id FROM retry_v1(v_dead, p_now) AS r WHERE r.answer = 'held');
    IF p_spacing IS NOT NULL THEN
        -- No condition on "ready": it would lead the planner to the index of all ready jobs.
        UPDATE job AS j
           SET state = 'scheduled', ready_at = NULL, run_at = d.due,
               deadline = CASE WHEN j.deadline > d.due THEN j.deadline END
          FROM (SELECT g.id, v_start + make_interval(secs => (g.ord - 1) * p_spacing) AS due
                  FROM unnest(v_dead) WITH ORDINALITY AS g (id, ord)) AS d
         WHERE j.id = ANY (v_dead) AND j.id = d.id AND j.state <> 'blocked';
        PERFORM notify_due_v1(v_start) WHERE cardinality(v_dead) > cardinality(v_held);
    END IF;
    RETURN QUERY
    SELECT g.id, CASE WHEN g.id = ANY (v_held) THEN 'held' ELSE coalesce(a.state, 'missing') END,
           CASE WHEN g.id = ANY (v_dead) AND g.id <> ALL (v_held) THEN a.run_at END
      FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
      LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id
     ORDER BY g.ord;
END
$$;

CREATE FUNCTION penstock.refuse_cycle_v1(p_new bigint[], p_children bigint[]) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_start bigint;
    v_path  bigint[];
BEGIN
    -- A new job that comes before others, but after none of these, closes no cycle. Nearly always that is enough.
    FOR v_start IN
        WITH RECURSIVE below AS (
            SELECT c.id FROM unnest(p_children) AS c (id)
             UNION
            SELECT c.child FROM below AS b, LATERAL (SELECT d.child FROM dependency AS d WHERE d.parent = b.id OFFSET 0) AS c
        )
        SELECT DISTINCT d.parent FROM dependency AS d
         WHERE d.parent = ANY (p_new) AND d.child = ANY (p_children) AND d.parent IN (SELECT b.id FROM below AS b)
    LOOP
        v_path := find_cycle_v1(v_start);
        IF v_path IS NOT NULL THEN
            RAISE EXCEPTION 'These jobs would wait for each other in a circle: %.', array_to_string(v_path, ' → ')
                USING ERRCODE = 'PS015', DETAIL = array_to_json(ARRAY(
                          SELECT p.id || coalesce(' (' || j.step || ')', '')
                            FROM unnest(v_path) WITH ORDINALITY AS p (id, ord)
                            LEFT JOIN job AS j ON j.id = p.id AND j.id = ANY (v_path) ORDER BY p.ord))::text,
                      HINT = 'Let the new job wait for less, or put it before another.';
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.release_dependents_v1(p_parents bigint[], p_states text[], p_workflows bigint[], p_now timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    v_children bigint[];
    v_told     integer;
BEGIN
    v_children := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.id = ANY (ARRAY(SELECT d.child FROM dependency AS d WHERE d.parent = ANY (p_parents) AND NOT d.satisfied))
         ORDER BY j.id FOR NO KEY UPDATE);

    WITH ended AS (
        SELECT e.id, e.state = 'completed' AS well, e.workflow
          FROM unnest(p_parents, p_states, p_workflows) AS e (id, state, workflow)
    ), counted AS (
        UPDATE dependency AS d SET satisfied = true
          FROM ended AS e
         WHERE d.parent = ANY (p_parents) AND d.parent = e.id AND d.workflow = e.workflow AND NOT d.satisfied AND (e.well OR d.on_failure = 'continue')
        RETURNING d.child, d.workflow
    ), fewer AS (
        SELECT c.child, c.workflow, count(*)::integer AS count FROM counted AS c GROUP BY c.child, c.workflow
    ), freed AS (
        UPDATE job AS j
           SET pending = greatest(0, j.pending - f.count),
               state = CASE WHEN j.pending > f.count THEN 'blocked' WHEN j.run_at > p_now THEN 'scheduled' ELSE 'ready' END,
               ready_at = CASE WHEN j.pending > f.count OR j.run_at > p_now THEN NULL ELSE clock_timestamp() END,
               reason = CASE WHEN j.pending > f.count THEN j.reason END
          FROM fewer AS f
         WHERE j.id = ANY (v_children) AND j.id = f.child AND j.workflow = f.workflow AND j.state = 'blocked' AND j.pending > 0
        RETURNING j.state, j.queue, j.lane, j.priority, j.ready_at, j.run_at
    )
    SELECT count(*) INTO v_told FROM (
        SELECT notify_ready_v1(f.queue, f.lane, f.priority, min(f.ready_at))
          FROM freed AS f WHERE f.state = 'ready' GROUP BY f.queue, f.lane, f.priority
        UNION ALL
        SELECT notify_due_v1(min(f.run_at)) FROM freed AS f WHERE f.state = 'scheduled' HAVING count(*) > 0) AS told;

    RETURN CASE WHEN p_states && ARRAY['failed', 'cancelled'] THEN dependents_to_cancel_v1(
        ARRAY(SELECT e.id FROM unnest(p_parents, p_states) WITH ORDINALITY AS e (id, state, ord)
               WHERE e.state <> 'completed' ORDER BY e.ord),
        ARRAY(SELECT e.workflow FROM unnest(p_states, p_workflows) WITH ORDINALITY AS e (state, workflow, ord)
               WHERE e.state <> 'completed' ORDER BY e.ord)) END;
END
$$;

CREATE FUNCTION penstock.release_jobs_v1(p_lease bigint, p_keep bigint[] DEFAULT '{}'::bigint[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
    WITH back AS (
        UPDATE job AS j
           SET state = 'ready', lease = NULL, token = NULL,
               ready_at = coalesce(p_now, clock_timestamp())
         WHERE j.id = ANY (ARRAY(
               SELECT r.id FROM job AS r
                WHERE r.state = 'running' AND r.lease = p_lease AND r.id <> ALL (p_keep)
                  FOR UPDATE SKIP LOCKED))
        RETURNING j.queue, j.lane, j.priority, j.ready_at
    ), told AS (
        SELECT notify_ready_v1(b.queue, b.lane, b.priority, min(b.ready_at))
          FROM back AS b GROUP BY b.queue, b.lane, b.priority
    )
    SELECT ((SELECT count(*) FROM back) + 0 * (SELECT count(*) FROM told))::integer;
$$;

CREATE FUNCTION penstock.release_unique_keys_v1(p_jobs bigint[], p_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
    DELETE FROM unique_claim AS u
     WHERE u.job = ANY (p_jobs) AND u.kind = 'unique' AND u.keep IS NULL AND (u.until <= p_now) IS NOT FALSE;
    UPDATE unique_claim AS u
       SET expires_at = greatest(u.until, p_now + make_interval(secs => u.keep))
     WHERE u.job = ANY (p_jobs) AND u.kind = 'unique' AND u.expires_at IS NULL;
END
$$;

CREATE FUNCTION penstock.replace_jobs_v1(p_jobs bigint[], p_replaced boolean[], p_tasks text[], p_args text[], p_args_versions smallint[], p_queues text[], p_lanes text[], p_priorities smallint[], p_delays double precision[], p_run_ats timestamp with time zone[], p_max_attempts integer[], p_timeouts double precision[], p_subjects text[], p_requested_bys text[], p_tags text[], p_metas text[], p_retries text[], p_deadlines timestamp with time zone[], p_now timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
    UPDATE job AS j
       SET state = CASE WHEN j.state = 'blocked' THEN 'blocked' WHEN g.due > p_now THEN 'scheduled' ELSE 'ready' END,
           run_at = g.due,
           ready_at = CASE WHEN j.state = 'blocked' OR g.due > p_now THEN NULL ELSE clock_timestamp() END,
           task = g.task, args = g.args::jsonb, args_version = coalesce(g.args_version, 1),
           queue = coalesce(g.queue, 'default'), lane = coalesce(g.lane, ''), priority = coalesce(g.priority, 0),
           failures = 0, losses = 0, suspect = false, max_attempts = coalesce(g.max_attempts, 5), timeout = g.timeout, subject = g.subject,
           requested_by = g.requested_by, meta = g.meta::jsonb, retry = g.retry::jsonb, deadline = g.deadline,
           tags = CASE WHEN g.tags IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(g.tags::jsonb)) END,
           reason = CASE WHEN j.state = 'blocked' THEN j.reason END, stuck_since = NULL
      FROM (SELECT r.*, coalesce(r.run_at, p_now + make_interval(secs => coalesce(r.delay, 0))) AS due
              FROM unnest(p_jobs, p_replaced, p_tasks, p_args, p_args_versions, p_queues, p_lanes, p_priorities, p_delays,
                          p_run_ats, p_max_attempts, p_timeouts, p_subjects, p_requested_bys, p_tags, p_metas,
                          p_retries, p_deadlines)
                AS r (job, is_replaced, task, args, args_version, queue, lane, priority, delay, run_at, max_attempts,
                      timeout, subject, requested_by, tags, meta, retry, deadline)) AS g
     WHERE g.is_replaced AND j.id = ANY (p_jobs) AND j.id = g.job AND j.state <> 'running';
    DELETE FROM step AS s
     WHERE s.job = ANY (ARRAY(SELECT r.job FROM unnest(p_jobs, p_replaced) AS r (job, is_replaced) WHERE r.is_replaced));
    DELETE FROM event_wait AS w
     WHERE w.job = ANY (ARRAY(SELECT r.job FROM unnest(p_jobs, p_replaced) AS r (job, is_replaced) WHERE r.is_replaced));
    DELETE FROM progress AS p
     WHERE p.job = ANY (ARRAY(SELECT r.job FROM unnest(p_jobs, p_replaced) AS r (job, is_replaced) WHERE r.is_replaced));
$$;

CREATE FUNCTION penstock.reschedule_v1(p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_delays double precision[], p_failures smallint[], p_stuck boolean[], p_errors text[], p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
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
          LEFT JOIN lock_event_waits_v1(ARRAY(
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
$$;

CREATE FUNCTION penstock.rescue_overtime_v1(p_grace double precision DEFAULT 60, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, lost boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_ids    bigint[];
    v_tokens uuid[];
BEGIN
    SELECT array_agg(o.id), array_agg(o.token) INTO v_ids, v_tokens
      FROM (SELECT j.id, j.token FROM job AS j
             WHERE j.state = 'running' AND j.lease > 0
               AND j.attempted_at + make_interval(secs => j.timeout + p_grace) < v_now
               AND NOT EXISTS (SELECT FROM lease AS l
                                WHERE l.id = j.lease AND l.expires_at > v_now
                                  AND jsonb_typeof(l.info -> 'unwritten') = 'object'
                                  AND (NOT coalesce((l.info #>> '{unwritten,is_claiming}')::boolean, false)
                                       OR l.info #> '{unwritten,ids}' ? j.id::text))
             LIMIT p_limit) AS o;
    RETURN QUERY
    SELECT l.id, l.lost FROM mark_worker_lost_v1(coalesce(v_ids, '{}'), v_tokens, 'timeout', 'Overtime',
        'The attempt ran past its timeout and its worker could not end it.', false, v_now) AS l;
END
$$;

CREATE FUNCTION penstock.rescue_v1(p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, lost boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_jobs record;
BEGIN
    FOR v_jobs IN WITH living AS (
        SELECT l.id FROM lease AS l WHERE l.expires_at > v_now
    ), gap AS (
        SELECT coalesce(lag(l.id) OVER (ORDER BY l.id), 0) AS low, l.id AS high FROM living AS l
        UNION ALL
        SELECT coalesce(max(l.id), 0), 9223372036854775807 FROM living AS l
    )
    SELECT o.unwritten, array_agg(o.id) AS ids, array_agg(o.token) AS tokens
      FROM (SELECT j.id, j.token,
                   (SELECT coalesce(l.info #>> '{unwritten,message}', '') FROM lease AS l
                     WHERE l.id = j.lease AND jsonb_typeof(l.info -> 'unwritten') = 'object'
                       AND l.info #> '{unwritten,ids}' ? j.id::text) AS unwritten
              FROM gap AS g
             CROSS JOIN LATERAL (
                   SELECT r.id, r.token, r.lease FROM job AS r
                    WHERE r.state = 'running' AND r.lease > g.low AND r.lease < g.high
                    LIMIT p_limit) AS j
             LIMIT p_limit) AS o
     GROUP BY o.unwritten
    LOOP
        IF v_jobs.unwritten IS NULL THEN
            RETURN QUERY
            SELECT l.id, l.lost FROM mark_worker_lost_v1(v_jobs.ids, v_jobs.tokens, 'lost', 'WorkerLost',
                'The worker that had this attempt stopped renewing its lease.', false, v_now) AS l;
        ELSE
            RETURN QUERY
            SELECT l.id, l.lost FROM mark_worker_lost_v1(v_jobs.ids, v_jobs.tokens, 'unwritten', 'OutcomeUnwritten',
                'The attempt ended, and its outcome could not be written: ' || v_jobs.unwritten, true, v_now) AS l;
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.reserve_budget_v1(p_key text, p_units double precision, p_share double precision DEFAULT 1, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS double precision
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v         record;
    v_opening double precision;
    v_lacking double precision;
    v_booked  double precision;
BEGIN
    IF p_units >= 0 AND p_units < 'Infinity' THEN
        SELECT f.level, f.rate, f.burst, f.filled_at, f.opens_in, f.booked INTO v
          FROM fill_bucket_v1(p_key, p_now) AS f;
    ELSE
        RAISE EXCEPTION 'A budget gives 0 units or more, not %.', p_units USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v.rate IS NULL THEN
        RAISE EXCEPTION 'There is no budget for "%".', p_key
            USING ERRCODE = 'PS006', HINT = 'Give the key a limit with a rate and a burst first.',
                  DETAIL = json_build_array(p_key)::text;
    END IF;
    IF p_units > v.burst THEN
        RAISE EXCEPTION 'The budget "%" never holds % units: its burst is %.', p_key, p_units, v.burst
            USING ERRCODE = 'PS005', HINT = 'Raise its burst, or ask for less at once.',
                  DETAIL = json_build_array(p_key, p_units, v.burst)::text;
    END IF;
    -- After a wait until exactly the right moment, rounding may leave the level a little below the units.
    IF v.opens_in = 0 AND v.level >= p_units * (1 - 1e-9) THEN
        UPDATE bucket AS b SET level = v.level - p_units, filled_at = v.filled_at, booked = v.booked WHERE b.key = p_key;
        RETURN NULL;
    END IF;
    IF v.rate = 0 THEN
        RETURN CASE WHEN v.level >= p_units THEN v.opens_in ELSE 'Infinity' END;
    END IF;
    v_opening := v.rate * v.opens_in;
    v_lacking := p_units - least(v.burst, v.level + v_opening);
    -- A caller whose turn has come and who lacks only a little, for example what job starts have taken, keeps its turn.
    IF v.opens_in = 0 AND v_lacking <= p_units * 0.1 THEN
        RETURN ceil(v_lacking / v.rate * 1e6) / 1e6;
    END IF;
    -- If a crash loses this write, a caller tries once more. That is not worth waiting for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Counted in units from when the key opens on, and at most five minutes' worth of them.
    v_booked := greatest(v_lacking, least(coalesce(v.booked - v_opening + p_units, v_lacking), v.rate * 300));
    UPDATE bucket AS b SET level = v.level, filled_at = v.filled_at, booked = v_booked + v_opening WHERE b.key = p_key;
    RETURN v.opens_in + ceil(greatest(0, v_lacking, v_booked * least(greatest(p_share, 0), 1)) / v.rate * 1e6) / 1e6;
END
$$;

CREATE FUNCTION penstock.resolve_steps_v1(p_workflow bigint, p_names text[]) RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_named jsonb := '{}';
    v       record;
BEGIN
    FOR v IN
        SELECT n.name, min(a.id) AS job, count(a.id) AS count
          FROM unnest(p_names) AS n (name)
          LEFT JOIN workflow_jobs_v1(ARRAY[p_workflow]) AS a ON a.step = n.name
         GROUP BY n.name
    LOOP
        IF v.count <> 1 THEN
            RAISE EXCEPTION 'Workflow % has % steps with the name "%".', p_workflow, v.count, v.name
                USING ERRCODE = 'PS017', DETAIL = json_build_array(v.name, p_workflow::text, v.count)::text,
                      HINT = 'Name the job itself.';
        END IF;
        v_named := v_named || jsonb_build_object(v.name, v.job);
    END LOOP;
    RETURN v_named;
END
$$;

CREATE FUNCTION penstock.restore_dependencies_v1(p_jobs bigint[], p_parents bigint[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
DECLARE
    v_live    bigint[];
    v_stalled bigint[];
    v_alive   bigint[];
BEGIN
    v_live := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.id = ANY (ARRAY(SELECT d.parent FROM dependency AS d WHERE d.child = ANY (p_jobs)
                                  UNION SELECT d.child FROM dependency AS d WHERE d.parent = ANY (p_parents)))
         ORDER BY j.id FOR NO KEY UPDATE);

    WITH again AS (
        UPDATE dependency AS d SET satisfied = false
          FROM job AS j
         WHERE d.parent = ANY (p_parents) AND d.satisfied AND d.child <> ALL (p_jobs)
           AND j.id = ANY (v_live) AND j.id = d.child AND j.workflow = d.workflow AND j.state = 'blocked' AND j.pending > 0
        RETURNING d.child
    )
    UPDATE job AS j SET pending = j.pending + a.count
      FROM (SELECT g.child, count(*)::integer AS count FROM again AS g GROUP BY g.child) AS a
     WHERE j.id = ANY (v_live) AND j.id = a.child;

    -- A stalled job stays stalled only if another of its parents has failed.
    v_stalled := ARRAY(SELECT j.id FROM job AS j
                        WHERE j.id = ANY (v_live) AND j.state = 'blocked' AND j.reason = 'parent_failed');
    v_alive := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(
                   SELECT d.parent FROM dependency AS d WHERE d.child = ANY (v_stalled))));
    UPDATE job AS j SET reason = NULL
     WHERE j.id = ANY (v_stalled) AND j.id <> ALL (ARRAY(
               SELECT d.child FROM dependency AS d
                WHERE d.child = ANY (v_stalled) AND NOT d.satisfied AND d.on_failure = 'wait' AND d.parent <> ALL (v_alive)));

    UPDATE dependency AS d SET satisfied = d.parent <> ALL (v_live)
      FROM job AS j
     WHERE d.child = ANY (p_jobs) AND d.satisfied = (d.parent = ANY (v_live))
       AND j.id = ANY (p_jobs) AND j.id = d.child AND j.workflow = d.workflow AND j.state IN ('ready', 'scheduled');
    UPDATE job AS j SET state = 'blocked', ready_at = NULL, pending = w.count
      FROM (SELECT d.child, count(*)::integer AS count FROM dependency AS d
             WHERE d.child = ANY (p_jobs) AND NOT d.satisfied GROUP BY d.child) AS w
     WHERE j.id = ANY (p_jobs) AND j.id = w.child AND j.state IN ('ready', 'scheduled');
END
$$;

CREATE FUNCTION penstock.retry_v1(p_ids bigint[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_states text[] DEFAULT '{completed,failed,cancelled}'::text[]) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_ids     bigint[];
    v_dates   date[];
    v_holds   boolean := false;
    v_held    bigint[] := '{}';
    v_answers text[];
    v_linked  bigint[];
    v_parents bigint[];
BEGIN
    UPDATE job AS j
       SET state = 'ready', run_at = v_now, ready_at = coalesce(p_now, clock_timestamp()), stuck_since = NULL
     WHERE j.id = ANY (p_ids) AND j.state = 'scheduled';
    -- Repeat if one of them is final now: it was running a moment ago and has ended in between.
    LOOP
        v_dates := history_dates_v1(p_ids);
        -- One call at a time for each workflow: a job that comes back must see whether its parents do.
        PERFORM 1 FROM workflow AS w
          WHERE w.id = ANY (ARRAY(SELECT h.workflow FROM job_history AS h
                                   WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) AND h.workflow IS NOT NULL))
          ORDER BY w.id FOR NO KEY UPDATE;
        -- The first time, all callers lock rows in the same order and wait. Later, when this call holds some locks, it
        -- waits for nobody, who might wait for these. An optimization fence keeps the check of the state apart: next to
        -- the ids it could lead the planner to the index of all failed jobs.
        IF NOT v_holds THEN
            v_ids := ARRAY(
                WITH named AS MATERIALIZED (
                    SELECT h.id, h.state FROM job_history AS h
                     WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) ORDER BY h.id FOR UPDATE
                )
                SELECT n.id FROM named AS n WHERE n.state = ANY (p_states) ORDER BY n.id);
        ELSE
            v_ids := ARRAY(
                WITH named AS MATERIALIZED (
                    SELECT h.id, h.state FROM job_history AS h
                     WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) FOR UPDATE SKIP LOCKED
                )
                SELECT n.id FROM named AS n WHERE n.state = ANY (p_states));
        END IF;
        WITH taken AS (
            INSERT INTO unique_claim AS u (kind, tenant, key, job)
            SELECT DISTINCT ON (h.tenant, h.unique_key) 'unique', h.tenant, h.unique_key, h.id
              FROM job_history AS h
             WHERE h.id = ANY (v_ids) AND h.expires_on = ANY (v_dates) AND h.unique_key IS NOT NULL
               -- ON CONFLICT would lock the key of a job that this call does not concern.
               AND (SELECT o.job FROM unique_claim AS o
                     WHERE o.kind = 'unique' AND o.tenant = h.tenant AND o.key = h.unique_key
                       AND o.job <> h.id AND (o.expires_at <= v_now) IS NOT TRUE) IS NULL
             ORDER BY h.tenant, h.unique_key, h.id
            ON CONFLICT (kind, tenant, key) DO UPDATE SET job = excluded.job, expires_at = NULL
             WHERE u.job = excluded.job OR u.expires_at <= v_now
            RETURNING u.job
        )
        SELECT coalesce(array_agg(h.id), '{}') INTO v_held
          FROM job_history AS h
         WHERE h.id = ANY (v_ids) AND h.expires_on = ANY (v_dates) AND h.unique_key IS NOT NULL AND h.id NOT IN (SELECT t.job FROM taken AS t);
        WITH back AS (
            DELETE FROM job_history AS h
             WHERE h.id = ANY (v_ids) AND h.expires_on = ANY (v_dates) AND h.id <> ALL (v_held)
            RETURNING h.id, h.batch, h.workflow, h.created_at, h.deadline, h.timeout, h.last_token, h.attempt,
                      h.max_attempts, h.max_losses, h.priority, h.args_version, h.has_children, h.queue,
                      h.lane, h.task, h.tenant, h.subject, h.requested_by, h.unique_key, h.tags, h.args,
                      h.meta, h.retry, h.errors, h.step, h.state, h.attempted_at, h.finished_at
        ), live AS (
            INSERT INTO job (id, batch, workflow, created_at, run_at, ready_at, deadline, timeout, last_token,
                             attempt, max_attempts, max_losses, priority, args_version, has_children, state,
                             queue, lane, task, tenant, subject, requested_by, unique_key, tags, args, meta,
                             retry, errors, step)
            SELECT b.id, b.batch, b.workflow, b.created_at, v_now, coalesce(p_now, clock_timestamp()),
                   CASE WHEN b.deadline > v_now THEN b.deadline END, b.timeout, b.last_token,
                   b.attempt, b.max_attempts, b.max_losses, b.priority, b.args_version, b.has_children, 'ready',
                   b.queue, b.lane, b.task, b.tenant, b.subject, b.requested_by, b.unique_key, b.tags, b.args, b.meta,
                   b.retry,
                   -- A job keeps only errors, so the end of an attempt without an error would be lost.
                   CASE WHEN b.attempted_at IS NULL
                          OR (b.errors -> -1 ->> 'began')::timestamptz = b.attempted_at THEN b.errors
                        ELSE coalesce(b.errors, '[]') || jsonb_build_object(
                             'kind', 'rerun', 'type', b.state, 'message', '', 'attempt', b.attempt,
                             'began', b.attempted_at, 'at', b.finished_at) END,
                   b.step
              FROM back AS b
        ), counted AS (
            INSERT INTO batch_delta (batch, pending, completed, failed, cancelled)
            SELECT b.batch, count(*), -count(*) FILTER (WHERE b.state = 'completed'),
                   -count(*) FILTER (WHERE b.state = 'failed'), -count(*) FILTER (WHERE b.state = 'cancelled')
              FROM back AS b WHERE b.batch IS NOT NULL GROUP BY b.batch
        )
        SELECT array_agg(b.id), array_agg(b.id) FILTER (WHERE b.has_children) INTO v_linked, v_parents
          FROM back AS b WHERE b.workflow IS NOT NULL;
        IF v_linked IS NOT NULL THEN
            PERFORM restore_dependencies_v1(v_linked, v_parents);
        END IF;
        DELETE FROM progress AS p WHERE p.job = ANY (v_ids) AND p.job <> ALL (v_held);
        -- Waits and polls that timed out start over; completed steps stay completed.
        DELETE FROM step AS s
         WHERE s.job = ANY (v_ids) AND s.job <> ALL (v_held) AND s.kind IN ('event', 'poll') AND s.result @> '{"timed_out": true}';
        DELETE FROM event_wait AS w WHERE w.job = ANY (v_ids) AND w.job <> ALL (v_held);
        v_answers := ARRAY(
            SELECT CASE WHEN g.id = ANY (v_held) THEN 'held' ELSE coalesce(a.state, 'missing') END
              FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord) LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id
             ORDER BY g.ord);
        EXIT WHEN NOT v_answers && p_states
               OR (v_holds AND v_ids <@ v_held);  -- others hold the rest
        v_holds := true;
    END LOOP;
    PERFORM notify_ready_v1(r.queue, r.lane, r.priority, r.ready_at)
       FROM (SELECT j.queue, j.lane, j.priority,
                    min(j.ready_at) FILTER (WHERE j.state = 'ready') AS ready_at
               FROM job AS j
              WHERE j.id = ANY (p_ids) GROUP BY j.queue, j.lane, j.priority) AS r
      WHERE r.ready_at IS NOT NULL;
    RETURN QUERY SELECT a.id, a.answer FROM unnest(p_ids, v_answers) AS a (id, answer);
END
$$;

CREATE FUNCTION penstock.retry_workflow_v1(p_workflow bigint, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_jobs bigint[];
BEGIN
    PERFORM 1 FROM workflow AS w WHERE w.id = p_workflow FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    v_jobs := ARRAY(SELECT j.id FROM workflow_jobs_v1(ARRAY[p_workflow]) AS j
                     WHERE j.state IN ('failed', 'cancelled') ORDER BY j.id);
    RETURN (SELECT count(*) FROM retry_v1(v_jobs, p_now) AS r WHERE r.answer IN ('ready', 'blocked'));
END
$$;

CREATE FUNCTION penstock.run_schedule_v1(p_schedule text, p_by text DEFAULT NULL::text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_tick timestamptz := coalesce(p_now, clock_timestamp());
    v_job  bigint;
BEGIN
    PERFORM FROM schedule AS s WHERE s.name = p_schedule FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    LOOP
        v_job := fire_tick_v1(p_schedule, v_tick, 'manual', 1, NULL, p_now);
        EXIT WHEN v_job IS NOT NULL;
        v_tick := v_tick + interval '1 microsecond';  -- a tick has this very time
    END LOOP;
    INSERT INTO audit (actor, action, tenant, target, detail)
    SELECT coalesce(p_by, session_user), 'run_schedule', s.tenant, s.name, jsonb_build_object('job', v_job::text)
      FROM schedule AS s WHERE s.name = p_schedule;
    RETURN v_job;
END
$$;

CREATE FUNCTION penstock.save_progress_v1(p_ids bigint[], p_tokens uuid[], p_done double precision[], p_totals double precision[], p_messages text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO progress AS p (job, done, total, message, updated_at)
    SELECT g.id, g.done, g.total, g.message, coalesce(p_now, statement_timestamp())
      FROM unnest(p_ids, p_tokens, p_done, p_totals, p_messages) AS g (id, token, done, total, message)
      JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
     ORDER BY g.id
    ON CONFLICT (job) DO UPDATE
       SET done = excluded.done, total = excluded.total, message = excluded.message,
           updated_at = excluded.updated_at, version = p.version + 1;
    RETURN QUERY
    SELECT g.id FROM unnest(p_ids, p_tokens) AS g (id, token)
     WHERE NOT EXISTS (SELECT FROM job AS j
                        WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token);
END
$$;

CREATE FUNCTION penstock.save_step_v1(p_job bigint, p_token uuid, p_kind text, p_name text, p_result jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS double precision
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_since timestamptz;
BEGIN
    PERFORM commit_durably_v1();
    PERFORM lock_attempt_v1(p_job, p_token);
    INSERT INTO step AS s (job, kind, name, result, created_at) VALUES (p_job, p_kind, p_name, p_result, v_now)
    ON CONFLICT (job, kind, name) DO UPDATE
       SET result = CASE s.kind WHEN 'poll' THEN excluded.result ELSE s.result END
    RETURNING s.created_at INTO v_since;
    RETURN extract(epoch FROM v_now - v_since);
END
$$;

CREATE FUNCTION penstock.scan_lanes_v1(p_queue text, p_from text DEFAULT ''::text, p_limit integer DEFAULT 1000) RETURNS TABLE(lane text, priority smallint, ready_at timestamp with time zone, id bigint)
    LANGUAGE sql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
    WITH RECURSIVE line AS (
        (SELECT j.lane, j.priority, j.ready_at, j.id
           FROM job AS j
          WHERE j.state = 'ready' AND j.queue = p_queue AND j.lane >= p_from
          ORDER BY j.lane, j.priority DESC, j.ready_at, j.id
          LIMIT 1)
        UNION ALL
        SELECT n.lane, n.priority, n.ready_at, n.id
          FROM line AS l
         CROSS JOIN LATERAL (
               SELECT x.lane, x.priority, x.ready_at, x.id FROM (
                   (SELECT j.lane, j.priority, j.ready_at, j.id
                      FROM job AS j
                     WHERE j.state = 'ready' AND j.queue = p_queue
                       AND j.lane = l.lane AND j.priority < l.priority
                     ORDER BY j.priority DESC, j.ready_at, j.id
                     LIMIT 1)
                   UNION ALL
                   (SELECT j.lane, j.priority, j.ready_at, j.id
                      FROM job AS j
                     WHERE j.state = 'ready' AND j.queue = p_queue AND j.lane > l.lane
                     ORDER BY j.lane, j.priority DESC, j.ready_at, j.id
                     LIMIT 1)) AS x
                LIMIT 1) AS n
    )
    SELECT l.lane, l.priority, l.ready_at, l.id FROM line AS l LIMIT p_limit;
$$;

CREATE FUNCTION penstock.schedule_changed_v1() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_now     timestamptz := statement_timestamp();
    v_resumed boolean;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        v_resumed := OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL;
        IF NEW.every IS DISTINCT FROM OLD.every THEN
            NEW.anchor := v_now;
        END IF;
        IF v_resumed OR (NEW.cron, NEW.every, NEW.timezone) IS DISTINCT FROM (OLD.cron, OLD.every, OLD.timezone) THEN
            NEW.done_until := v_now;
        END IF;
        IF v_resumed OR (NEW.on_start AND NOT OLD.on_start) THEN
            NEW.started_at := (SELECT r.elected_at FROM leader AS r WHERE r.role = 'orchestration');
        END IF;
        NEW.version := OLD.version + 1;
        NEW.updated_at := v_now;
    END IF;
    NEW.next_at := NULL;
    PERFORM pg_notify(current_schema() || '.schedules', '');
    RETURN NEW;
END
$$;

CREATE FUNCTION penstock.schedule_overlap_v1(p_schedule text, p_overlap text) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'penstock', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
BEGIN
    -- It is enough to check the last jobs: while one has not ended, only manual runs add more.
    RETURN (
        SELECT CASE WHEN bool_or(j.state <> 'running') THEN 'waiting' WHEN p_overlap = 'skip' THEN 'running' END
          FROM (SELECT f.job FROM schedule_fire AS f
                 WHERE f.schedule = p_schedule AND f.job IS NOT NULL
                 ORDER BY f.tick DESC LIMIT 10) AS l
          JOIN job AS j ON j.id = l.job
         WHERE p_overlap <> 'allow'
        HAVING count(*) > 0);
END
$$;

CREATE FUNCTION penstock.send_event_v1(p_name text, p_payload jsonb DEFAULT NULL::jsonb, p_tenant text DEFAULT ''::text, p_keep double precision DEFAULT 604800, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb) RETURNS TABLE(id bigint, woken integer)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_tenant text := coalesce(current_setting('penstock.tenant', true), '');
    v_told   boolean;
BEGIN
    IF p_options ->> 'durable' = 'true' THEN
        PERFORM commit_durably_v1();
    END IF;
    IF v_tenant <> '' AND p_tenant NOT IN ('', v_tenant) THEN
        RAISE EXCEPTION 'An event of tenant "%" cannot be sent by tenant "%".', p_tenant, v_tenant
            USING ERRCODE = 'PS007', DETAIL = json_build_array(p_tenant, v_tenant)::text,
                  HINT = 'Leave the tenant out, or SET LOCAL penstock.tenant to the other one.';
    ELSIF v_tenant = '' AND row_security_active('event') THEN
        RAISE EXCEPTION 'No tenant is set, and row level security is on.'
            USING ERRCODE = 'PS008', HINT = 'SET LOCAL penstock.tenant to the tenant that the event belongs to.';
    END IF;
    v_tenant := coalesce(nullif(v_tenant, ''), p_tenant);
    PERFORM pg_advisory_xact_lock(event_lock_key_v1(v_tenant, p_name));
    id := nextval('event_id_seq');
    SELECT w.woken, w.all_told INTO woken, v_told
      FROM wake_waiters_v1(id, v_tenant, p_name, 1000,
                           coalesce((p_options ->> 'notify')::boolean, true), p_now) AS w;
    INSERT INTO event (id, tenant, name, payload, sent_at, expires_at, told)
    OVERRIDING SYSTEM VALUE
    VALUES (id, v_tenant, p_name, coalesce(p_payload, 'null'), v_now, v_now + make_interval(secs => p_keep),
            v_told AND current_setting('transaction_isolation') = 'read committed');
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.settings_changed_v1() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
BEGIN
    UPDATE setting_version
       SET version = version + 1,
           places = EXISTS (SELECT FROM queue AS q WHERE q.fair)
                 OR EXISTS (SELECT FROM limit_setting AS l WHERE starts_with(l.key, 'task:'))
                 OR EXISTS (SELECT FROM tenant_setting AS t WHERE t.plan IS NOT NULL);
    PERFORM pg_notify(current_schema() || '.settings', '');
    RETURN NULL;
END
$$;

CREATE FUNCTION penstock.settle_unlocked_v1(p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_delays double precision[], p_failures smallint[], p_stuck boolean[], p_errors text[], p_results text[], p_now timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_free    record;
    v_settled integer;
BEGIN
    WITH RECURSIVE own AS MATERIALIZED (
        SELECT j.id, j.has_children, j.unique_key IS NOT NULL AS has_key
          FROM job AS j WHERE j.id = ANY (p_ids) FOR UPDATE SKIP LOCKED
    ), key AS MATERIALIZED (
        SELECT u.job FROM unique_claim AS u
         WHERE u.job = ANY (ARRAY(SELECT o.id FROM own AS o WHERE o.has_key)) AND u.kind = 'unique'
    ), free_key AS MATERIALIZED (
        SELECT u.job FROM unique_claim AS u
         WHERE u.job = ANY (ARRAY(SELECT k.job FROM key AS k)) AND u.kind = 'unique' FOR UPDATE SKIP LOCKED
    ), edge AS (
        SELECT d.parent, d.child, d.on_failure = 'cancel' AND g.state IN ('failed', 'cancelled') AS is_doomed
          FROM dependency AS d JOIN unnest(p_ids, p_states) AS g (id, state) ON g.id = d.parent
         WHERE d.parent = ANY (ARRAY(SELECT o.id FROM own AS o WHERE o.has_children)) AND NOT d.satisfied
         UNION
        SELECT e.parent, c.child, c.is_doomed FROM edge AS e, LATERAL (
               SELECT d.child, d.on_failure = 'cancel' AS is_doomed FROM dependency AS d
                WHERE d.parent = e.child AND NOT d.satisfied OFFSET 0) AS c
         WHERE e.is_doomed
    ), child AS MATERIALIZED (
        SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT e.child FROM edge AS e))
    ), free_child AS MATERIALIZED (
        SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT c.id FROM child AS c))
         ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
    ), free AS MATERIALIZED (
        SELECT o.id FROM own AS o
         WHERE o.id NOT IN (SELECT k.job FROM key AS k EXCEPT SELECT f.job FROM free_key AS f)
           AND o.id NOT IN (SELECT e.parent FROM edge AS e JOIN child AS c ON c.id = e.child
                             WHERE e.child NOT IN (SELECT f.id FROM free_child AS f))
    )
    SELECT array_agg(g.id) AS ids, array_agg(g.token) AS tokens, array_agg(g.state) AS states,
           array_agg(g.reason) AS reasons, array_agg(g.delay) AS delays,
           array_agg(g.failure) AS failures, array_agg(g.stuck) AS stuck,
           array_agg(g.error) AS errors, array_agg(g.result) AS results
      INTO v_free
      FROM unnest(p_ids, p_tokens, p_states, p_reasons, p_delays, p_failures, p_stuck, p_errors, p_results)
        AS g (id, token, state, reason, delay, failure, stuck, error, result)
     WHERE g.id IN (SELECT f.id FROM free AS f);
    IF v_free.ids IS NULL THEN
        RETURN 0;
    END IF;
    v_settled := finish_jobs_v1(v_free.ids, v_free.tokens, v_free.states, v_free.reasons, v_free.failures,
                                NULL, v_free.errors, v_free.results, true, p_now);
    RETURN v_settled + reschedule_v1(v_free.ids, v_free.tokens, v_free.states, v_free.reasons, v_free.delays,
                                     v_free.failures, v_free.stuck, v_free.errors, p_now);
END
$$;

CREATE FUNCTION penstock.settle_v1(p_ids bigint[], p_tokens uuid[], p_states text[] DEFAULT NULL::text[], p_reasons text[] DEFAULT NULL::text[], p_delays double precision[] DEFAULT NULL::double precision[], p_failures smallint[] DEFAULT NULL::smallint[], p_stuck boolean[] DEFAULT NULL::boolean[], p_errors text[] DEFAULT NULL::text[], p_results text[] DEFAULT NULL::text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb) RETURNS TABLE(id bigint, token uuid, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET lock_timeout TO '50ms'
    AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_settled integer := 0;
BEGIN
    IF p_options ->> 'durable' = 'true' THEN
        PERFORM commit_durably_v1();
    END IF;
    BEGIN
        -- Nearly always nobody has locked one of the rows: write at once. lock_timeout raises an error if not.
        v_settled := finish_jobs_v1(p_ids, p_tokens, p_states, p_reasons, p_failures, NULL,
                                    p_errors, p_results, true, v_now);
        IF v_settled < cardinality(p_ids) AND p_states IS NOT NULL THEN
            v_settled := v_settled + reschedule_v1(p_ids, p_tokens, p_states, p_reasons, p_delays,
                                                   p_failures, p_stuck, p_errors, v_now);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        -- An open transaction of a caller has locked a row: the other jobs must not wait for it.
        v_settled := settle_unlocked_v1(p_ids, p_tokens, p_states, p_reasons, p_delays, p_failures,
                                        p_stuck, p_errors, p_results, v_now);
    END;
    IF v_settled < cardinality(p_ids) THEN
        IF EXISTS (SELECT FROM unnest(p_states) AS s (state) WHERE s.state NOT IN (
                   'completed', 'failed', 'cancelled', 'scheduled', 'ready', 'blocked')) THEN
            RAISE EXCEPTION 'An attempt ends as completed, failed, cancelled, scheduled, ready or blocked, not as %.',
                p_states USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN QUERY SELECT a.id, a.token, a.answer FROM explain_unsettled_v1(p_ids, p_tokens) AS a;
    END IF;
END
$$;

CREATE FUNCTION penstock.share_step_v1(p_job bigint, p_token uuid, p_name text, p_result jsonb, p_key bytea, p_ttl double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
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

CREATE FUNCTION penstock.sleep_v1(p_job bigint, p_token uuid, p_name text, p_until timestamp with time zone, p_seconds double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS double precision
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
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

CREATE FUNCTION penstock.sweep_cache_v1(p_bytes bigint, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_excess bigint DEFAULT NULL::bigint) RETURNS TABLE(expired integer, evicted integer, excess bigint)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_freed bigint;
BEGIN
    DELETE FROM step_cache AS c
     WHERE c.ctid = ANY (ARRAY(
           SELECT o.ctid FROM step_cache AS o
            WHERE o.expires_at <= v_now ORDER BY o.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS expired = ROW_COUNT;
    excess := coalesce(p_excess, (SELECT greatest(0, coalesce(sum(c.size), 0) - p_bytes) FROM step_cache AS c));
    evicted := 0;
    IF excess > 0 THEN
        WITH gone AS (
            DELETE FROM step_cache AS c
             WHERE c.ctid = ANY (ARRAY(
                   SELECT f.place
                     FROM (SELECT o.place, o.size, sum(o.size) OVER (ORDER BY o.used_at, o.place) AS freed
                             FROM (SELECT l.ctid AS place, l.size, l.used_at FROM step_cache AS l
                                    ORDER BY l.used_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS o) AS f
                    WHERE f.freed - f.size < excess))
            RETURNING c.size
        )
        SELECT count(*), coalesce(sum(g.size), 0) INTO evicted, v_freed FROM gone AS g;
        excess := greatest(0, excess - v_freed);
    END IF;
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.sweep_events_v1(p_after bigint DEFAULT 0, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(events integer, waits integer, upto bigint)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_jobs bigint[];
BEGIN
    DELETE FROM event AS e
     WHERE e.id = ANY (ARRAY(
           SELECT o.id FROM event AS o
            WHERE o.expires_at <= v_now ORDER BY o.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS events = ROW_COUNT;
    SELECT array_agg(DISTINCT o.job), max(o.job) INTO v_jobs, upto
      FROM (SELECT w.job FROM event_wait AS w WHERE w.job > p_after ORDER BY w.job LIMIT p_limit) AS o;
    v_jobs := ARRAY(
        SELECT w.job FROM event_wait AS w
         WHERE w.job = ANY (v_jobs) AND NOT EXISTS (SELECT FROM job AS j WHERE j.id = w.job)
         FOR UPDATE OF w SKIP LOCKED);
    -- Checked again after the lock: a job may have come back from history and wait.
    waits := 0;
    IF cardinality(v_jobs) > 0 THEN
        DELETE FROM event_wait AS w
         WHERE w.job = ANY (v_jobs) AND NOT EXISTS (SELECT FROM job AS j WHERE j.id = w.job);
        GET DIAGNOSTICS waits = ROW_COUNT;
    END IF;
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.sweep_fires_v1(p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    AS $$
DECLARE
    v_week_ago timestamptz := coalesce(p_now, statement_timestamp()) - interval '7 days';
    v_swept    integer;
BEGIN
    DELETE FROM schedule_fire AS f
     USING (SELECT o.schedule, o.tick
              FROM schedule AS s
             CROSS JOIN LATERAL (
                   SELECT greatest(v_week_ago, (SELECT n.tick FROM schedule_fire AS n WHERE n.schedule = s.name
                                                 ORDER BY n.tick DESC OFFSET 999 LIMIT 1)) AS before,
                          (SELECT n.tick FROM schedule_fire AS n WHERE n.schedule = s.name AND n.job IS NOT NULL
                            ORDER BY n.tick DESC OFFSET 9 LIMIT 1) AS tenth) AS b
             CROSS JOIN LATERAL (
                   SELECT n.schedule, n.tick FROM schedule_fire AS n
                    WHERE n.schedule = s.name AND n.tick < b.before AND (n.job IS NULL OR n.tick < b.tenth)
                    ORDER BY n.tick LIMIT p_limit) AS o
             LIMIT p_limit) AS old
     WHERE f.schedule = old.schedule AND f.tick = old.tick;
    GET DIAGNOSTICS v_swept = ROW_COUNT;
    RETURN v_swept;
END
$$;

CREATE FUNCTION penstock.sweep_steps_v1(p_after bigint DEFAULT 0, p_limit integer DEFAULT 1000) RETURNS TABLE(swept integer, upto bigint)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_jobs bigint[];
BEGIN
    SELECT array_agg(DISTINCT o.job), max(o.job) INTO v_jobs, upto
      FROM (SELECT s.job FROM step AS s WHERE s.job > p_after ORDER BY s.job LIMIT p_limit) AS o;
    DELETE FROM step AS s
     WHERE s.job = ANY (ARRAY(
           SELECT g.job FROM unnest(v_jobs) AS g (job)
            WHERE NOT EXISTS (SELECT FROM job_all AS a WHERE a.id = g.job)));
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.sweep_v1(p_limit integer DEFAULT 5000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(leases integer, keys integer, progress integer, buckets integer, batches integer, workflows integer)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now      timestamptz := coalesce(p_now, statement_timestamp());
    v_hour_ago timestamptz := v_now - interval '1 hour';
    v_longest  integer := greatest(30, (SELECT max(r.days) FROM retention AS r));
    -- Jobs that ended later may still be in history, and checking each would read all of it. Jobs that ended before this
    -- time are not, whatever their day.
    v_gone     timestamptz := v_now - make_interval(days => 1 + (
        SELECT max(expires_on_v1(d.ended, v_longest) - d.ended)
          FROM (SELECT date '2001-01-01' + g AS ended FROM generate_series(0, 365) AS g) AS d));
    v_ended    bigint[];
    v_keys     text[];
    v_rows     tid[];
BEGIN
    -- Leases are kept for a while after the rescue: errors get the worker's name from them, and people look at them.
    v_ended := ARRAY(SELECT l.id FROM lease AS l
                      WHERE l.expires_at < v_hour_ago
                        AND NOT EXISTS (SELECT FROM job AS j WHERE j.state = 'running' AND j.lease = l.id)
                      LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM lease AS l WHERE l.id = ANY (v_ended);
    leases := cardinality(v_ended);
    DELETE FROM signal AS s WHERE NOT EXISTS (SELECT FROM lease AS l WHERE l.id = s.lease);
    DELETE FROM "grant" AS g WHERE NOT EXISTS (SELECT FROM lease AS l WHERE l.id = g.lease);

    v_rows := ARRAY(SELECT u.ctid FROM unique_claim AS u
                     WHERE u.expires_at <= v_now ORDER BY u.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM unique_claim AS u WHERE u.ctid = ANY (v_rows);
    keys := cardinality(v_rows);

    v_ended := ARRAY(SELECT p.job FROM progress AS p
                      WHERE p.updated_at < v_gone AND NOT EXISTS (SELECT FROM job_all AS j WHERE j.id = p.job)
                      LIMIT p_limit FOR UPDATE OF p SKIP LOCKED);
    DELETE FROM progress AS p WHERE p.job = ANY (v_ended);
    progress := cardinality(v_ended);

    v_keys := ARRAY(SELECT b.key FROM bucket AS b CROSS JOIN LATERAL get_limit_v1(b.key) AS l
                     WHERE b.filled_at < v_hour_ago AND (b.closed_until < v_hour_ago) IS NOT FALSE
                       AND (b.level + l.rate * extract(epoch FROM v_hour_ago - b.filled_at) >= l.burst) IS NOT FALSE
                     LIMIT p_limit FOR UPDATE OF b SKIP LOCKED);
    DELETE FROM bucket AS b WHERE b.key = ANY (v_keys);
    buckets := cardinality(v_keys);

    v_ended := ARRAY(SELECT b.id FROM batch AS b
                      WHERE b.finished_at < v_gone ORDER BY b.finished_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM batch_delta AS d WHERE d.batch = ANY (v_ended);
    DELETE FROM batch AS b WHERE b.id = ANY (v_ended);
    batches := cardinality(v_ended);
    -- Batches that were never closed and to which nobody adds jobs any more. A recent addition has left a delta.
    v_ended := ARRAY(SELECT b.id FROM batch AS b
                      WHERE b.finished_at IS NULL AND b.closed_at IS NULL
                        AND b.created_at < v_gone AND (b.folded_at < v_gone) IS NOT FALSE
                        AND NOT EXISTS (SELECT FROM batch_delta AS d WHERE d.batch = b.id)
                        AND NOT EXISTS (SELECT FROM job AS j WHERE j.batch = b.id)
                      ORDER BY b.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM batch AS b
     WHERE b.id = ANY (v_ended) AND NOT EXISTS (SELECT FROM batch_delta AS d WHERE d.batch = b.id);
    batches := greatest(batches, cardinality(v_ended));

    v_ended := ARRAY(SELECT w.id FROM workflow AS w
                      WHERE w.created_at < v_gone
                        AND NOT EXISTS (SELECT FROM job AS j WHERE j.workflow = w.id)
                        AND NOT EXISTS (SELECT FROM job_history AS h WHERE h.workflow = w.id)
                      ORDER BY w.created_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM dependency AS d WHERE d.workflow = ANY (v_ended);
    DELETE FROM workflow AS w WHERE w.id = ANY (v_ended);
    workflows := cardinality(v_ended);
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.sync_schedules_v1(p_declared jsonb) RETURNS SETOF text
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v     record;
    v_old schedule;
BEGIN
    -- Always in the same order, so that workers that start at the same time do not deadlock.
    FOR v IN SELECT d.name, d.wins, d.definition
               FROM jsonb_to_recordset(p_declared) AS d (name text, wins text, definition jsonb)
              ORDER BY d.name COLLATE "C" LOOP
        SELECT s.* INTO v_old FROM schedule AS s WHERE s.name = v.name;
        IF NOT FOUND THEN
            INSERT INTO schedule (name, tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request,
                                  wins, declared)
            SELECT v.name, n.tenant, n.cron, n.every, n.timezone, n.jitter, n.overlap, n.catch_up, n.on_start,
                   n.request, v.wins, v.definition
              FROM jsonb_populate_record(NULL::schedule, v.definition) AS n
            ON CONFLICT (name) DO NOTHING;
        ELSIF v.wins = 'runtime' AND (v_old.edited_at IS NOT NULL OR v_old.declared IS NULL) THEN
            UPDATE schedule AS s
               SET declared = v.definition, wins = v.wins, edited_at = coalesce(s.edited_at, statement_timestamp())
             WHERE s.name = v.name AND (s.declared, s.wins) IS DISTINCT FROM (v.definition, v.wins);
        ELSE
            UPDATE schedule AS s
               SET (tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request) = (
                       SELECT n.tenant, n.cron, n.every, n.timezone, n.jitter, n.overlap, n.catch_up, n.on_start,
                              n.request
                         FROM jsonb_populate_record(s, v.definition) AS n),
                   declared = v.definition, wins = v.wins, edited_at = NULL
             WHERE s.name = v.name
               AND (s.edited_at IS NOT NULL OR (s.declared, s.wins) IS DISTINCT FROM (v.definition, v.wins));
        END IF;
        IF FOUND THEN
            RETURN NEXT v.name;
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.take_tokens_v1(p_keys text[], p_wants integer[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(key text, got integer, wait double precision)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_want integer;
    v      record;
BEGIN
    -- If a crash loses this write, the bucket is a little too full. That is not worth waiting for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Keys are locked in order, so that two callers with the same keys do not wait for each other.
    FOR key, v_want IN
        SELECT k.key COLLATE "C", sum(k.want) FROM unnest(p_keys, p_wants) AS k (key, want) GROUP BY 1 ORDER BY 1
    LOOP
        SELECT f.level, f.rate, f.burst, f.filled_at, f.opens_in, f.booked INTO v FROM fill_bucket_v1(key, p_now) AS f;
        IF v_want < 0 THEN
            got := v_want;
        ELSIF v.opens_in > 0 THEN
            got := 0;
        ELSIF v.rate IS NULL THEN
            got := v_want;
        ELSE
            -- After a wait until exactly the right moment, rounding may leave the level a little below a token.
            got := greatest(0, least(v_want, floor(v.level + 1e-9)));
        END IF;
        wait := CASE WHEN got <> 0 THEN 0
                     ELSE greatest(v.opens_in, CASE WHEN v.level >= 1 - 1e-9 OR v.rate IS NULL THEN 0
                                                    WHEN v.rate = 0 OR v.burst < 1 THEN 'Infinity'
                                                    ELSE ceil((1 - v.level) / v.rate * 1e6) / 1e6 END) END;
        IF got <> 0 AND v.rate IS NOT NULL THEN
            UPDATE bucket AS b SET level = least(v.burst, v.level - got), filled_at = v.filled_at, booked = v.booked
             WHERE b.key = take_tokens_v1.key;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.try_login_v1(p_subjects bytea[], p_free integer[], p_most double precision[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS double precision
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, clock_timestamp());
    v_wait double precision;
BEGIN
    -- Rows without an attempt for a day are deleted, a few at a time.
    DELETE FROM login_failure AS f
     WHERE f.subject IN (SELECT o.subject FROM login_failure AS o WHERE o.last_at < v_now - interval '1 day'
                          ORDER BY o.last_at LIMIT 100 FOR UPDATE SKIP LOCKED);
    INSERT INTO login_failure (subject, last_at, until)
    SELECT s.subject, v_now, v_now FROM unnest(p_subjects) AS s (subject) ORDER BY s.subject
    ON CONFLICT (subject) DO NOTHING;
    -- Locked in one order, so that two attempts never deadlock.
    PERFORM FROM login_failure AS f WHERE f.subject = ANY (p_subjects) ORDER BY f.subject FOR UPDATE;
    v_now := coalesce(p_now, clock_timestamp());  -- after the lock, since others may have come first
    SELECT extract(epoch FROM max(f.until) - v_now) INTO v_wait FROM login_failure AS f WHERE f.subject = ANY (p_subjects);
    IF v_wait > 0 THEN
        RETURN v_wait;
    END IF;
    UPDATE login_failure AS f
       SET failures = n.failures, last_at = v_now,
           until = v_now + CASE WHEN n.failures <= s.free THEN interval '0'
                                ELSE make_interval(secs => least(s.most, 2.0 ^ least(n.failures - s.free - 1, 30))) END
      FROM unnest(p_subjects, p_free, p_most) AS s (subject, free, most)
     CROSS JOIN LATERAL (
           SELECT CASE WHEN o.last_at < v_now - interval '1 hour' THEN 1 ELSE o.failures + 1 END AS failures
             FROM login_failure AS o WHERE o.subject = s.subject) AS n
     WHERE f.subject = s.subject;
    RETURN 0;
END
$$;

CREATE FUNCTION penstock.unblock_v1(p_ids bigint[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id bigint, answer text)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids) AND j.state = 'blocked' ORDER BY j.id FOR UPDATE);
    UPDATE dependency AS d SET satisfied = true WHERE d.child = ANY (v_ids) AND NOT d.satisfied;
    UPDATE job AS j
       SET state = 'ready', pending = 0, reason = NULL, ready_at = coalesce(p_now, clock_timestamp())
     WHERE j.id = ANY (v_ids);
    PERFORM notify_ready_v1(r.queue, r.lane, r.priority, r.ready_at)
       FROM (SELECT j.queue, j.lane, j.priority, min(j.ready_at) AS ready_at FROM job AS j
              WHERE j.id = ANY (v_ids) GROUP BY j.queue, j.lane, j.priority) AS r;
    RETURN QUERY
    SELECT g.id, coalesce(a.state, 'missing')
      FROM unnest(p_ids) AS g (id) LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id;
END
$$;

CREATE FUNCTION penstock.wake_due_waits_v1(p_limit integer DEFAULT 1000, p_after bigint DEFAULT 0, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(woken integer, upto bigint, next_in double precision)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_left  integer := p_limit;  -- an event that wakes no job counts too
    v_held  integer := 0;
    v_most  integer;
    v_event record;
    v_waked record;
    v_jobs  bigint[];
    v_woken bigint[];
BEGIN
    woken := 0;
    FOR v_event IN
        SELECT e.id, e.tenant, e.name FROM event AS e
         WHERE NOT e.told AND e.id > p_after ORDER BY e.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        SELECT w.woken, w.all_told INTO v_waked
          FROM wake_waiters_v1(v_event.id, v_event.tenant, v_event.name, v_left, true, p_now) AS w;
        IF v_waked.all_told THEN
            UPDATE event AS e SET told = true WHERE e.id = v_event.id;
        END IF;
        woken := woken + v_waked.woken;
        v_left := v_left - v_waked.woken - 1;
        IF v_left <= 0 THEN  -- the next call reads this event again, since more jobs may wait for it
            upto := CASE WHEN v_waked.all_told OR v_waked.woken = 0 THEN v_event.id ELSE v_event.id - 1 END;
            EXIT;
        END IF;
    END LOOP;

    v_left := p_limit;
    LOOP
        v_most := v_left;
        v_jobs := ARRAY(
            SELECT w.job FROM event_wait AS w WHERE w.until <= v_now AND NOT w.woken
             ORDER BY w.until, w.job OFFSET v_held LIMIT v_most FOR UPDATE SKIP LOCKED);
        v_woken := wake_jobs_v1(v_jobs, true, p_now);
        IF cardinality(v_woken) > 0 THEN
            UPDATE event_wait AS w SET woken = true WHERE w.job = ANY (v_woken) AND w.until <= v_now;
        END IF;
        v_left := v_left - cardinality(v_woken);
        v_held := v_held + cardinality(v_jobs) - cardinality(v_woken);
        EXIT WHEN cardinality(v_jobs) < v_most OR v_left <= 0;
    END LOOP;
    woken := woken + p_limit - v_left;

    IF EXISTS (SELECT FROM event AS e WHERE NOT e.told) THEN
        next_in := 0;
    ELSE
        SELECT greatest(0, extract(epoch FROM w.until - v_now)) INTO next_in FROM event_wait AS w
         WHERE NOT w.woken AND w.until IS NOT NULL ORDER BY w.until LIMIT 1;
    END IF;
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.wake_jobs_v1(p_jobs bigint[], p_notify boolean, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_free  bigint[];
    v_held  bigint[];
    v_lines integer;
BEGIN
    IF cardinality(p_jobs) = 0 THEN
        RETURN p_jobs;
    END IF;
    v_free := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.id = ANY (p_jobs) AND j.state = 'blocked' AND j.pending = 0
         ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED);
    -- For an empty list Postgres may use any partial index, and read all of it.
    IF cardinality(v_free) > 0 THEN
        WITH up AS (
            UPDATE job AS j SET state = 'ready', ready_at = coalesce(p_now, clock_timestamp())
             WHERE j.id = ANY (v_free)
            RETURNING j.queue, j.lane, j.priority, j.ready_at
        ), told AS (
            SELECT notify_ready_v1(u.queue, u.lane, u.priority, min(u.ready_at))
              FROM up AS u WHERE p_notify GROUP BY u.queue, u.lane, u.priority
        )
        SELECT count(*) INTO v_lines FROM told;
    END IF;
    v_held := ARRAY(SELECT j.id FROM job AS j WHERE j.id = ANY (p_jobs) AND j.state = 'blocked' AND j.pending = 0);
    RETURN ARRAY(SELECT g.id FROM unnest(p_jobs) AS g (id) WHERE g.id <> ALL (v_held));
END
$$;

CREATE FUNCTION penstock.wake_waiters_v1(p_event bigint, p_tenant text, p_name text, p_limit integer, p_notify boolean, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(woken integer, all_told boolean)
    LANGUAGE plpgsql
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_jobs  bigint[];
    v_woken bigint[];
    v_most  integer;
    v_held  integer := 0;
BEGIN
    woken := 0;
    LOOP
        v_most := p_limit - woken;
        v_jobs := ARRAY(
            SELECT w.job FROM event_wait AS w
             WHERE w.tenant = p_tenant AND w.name = p_name AND w.after_event < p_event AND NOT w.woken
             ORDER BY w.job OFFSET v_held LIMIT v_most FOR UPDATE SKIP LOCKED);
        v_woken := wake_jobs_v1(v_jobs, p_notify, p_now);
        IF cardinality(v_woken) > 0 THEN
            UPDATE event_wait AS w SET woken = true
             WHERE w.job = ANY (v_woken) AND w.tenant = p_tenant AND w.name = p_name AND w.after_event < p_event;
        END IF;
        woken := woken + cardinality(v_woken);
        v_held := v_held + cardinality(v_jobs) - cardinality(v_woken);
        EXIT WHEN cardinality(v_jobs) < v_most OR woken >= p_limit;
    END LOOP;
    all_told := NOT EXISTS (
        SELECT FROM event_wait AS w
         WHERE w.tenant = p_tenant AND w.name = p_name AND w.after_event < p_event AND NOT w.woken);
    RETURN NEXT;
END
$$;

CREATE FUNCTION penstock.workflow_jobs_v1(p_workflows bigint[]) RETURNS TABLE(id bigint, workflow bigint, step text, task text, state text, reason text, attempt integer, pending integer, has_children boolean, run_at timestamp with time zone, attempted_at timestamp with time zone, finished_at timestamp with time zone, error text)
    LANGUAGE plpgsql STABLE ROWS 100
    SET search_path TO 'penstock', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
DECLARE
    v_all  date[] := list_partitions_v1();
    v_days date[] := array_remove(v_all, NULL);
    v_few  date[];
BEGIN
    RETURN QUERY
    SELECT j.id, j.workflow, j.step, j.task, j.state, j.reason, j.attempt, j.pending, j.has_children, j.run_at,
           j.attempted_at, NULL::timestamptz,
           CASE WHEN j.errors -> -1 ->> 'kind' IS DISTINCT FROM 'rerun'
                THEN (j.errors -> -1 ->> 'type') || ': ' || (j.errors -> -1 ->> 'message') END
      FROM job AS j WHERE j.workflow = ANY (p_workflows);
    -- One group more than there are days: for partitions that somebody created by hand, which have none.
    FOR v_start IN 1..cardinality(v_days) + 4 BY 4 LOOP
        v_few := v_days[v_start:v_start + 3];
        CONTINUE WHEN cardinality(v_few) = 0 AND cardinality(v_all) = cardinality(v_days);
        BEGIN
            RETURN QUERY
            SELECT h.id, h.workflow, h.step, h.task, h.state, h.reason, h.attempt, 0, h.has_children, h.run_at,
                   h.attempted_at, h.finished_at,
                   CASE WHEN h.state <> 'completed' AND h.errors -> -1 ->> 'kind' IS DISTINCT FROM 'rerun'
                        THEN (h.errors -> -1 ->> 'type') || ': ' || (h.errors -> -1 ->> 'message') END
              FROM job_history AS h
             WHERE h.workflow = ANY (p_workflows)
               AND (h.expires_on = ANY (v_few) OR cardinality(v_few) = 0 AND h.expires_on <> ALL (v_days));
            -- Only a subtransaction that fails releases its locks. The rows that it has returned stay.
            RAISE EXCEPTION USING ERRCODE = 'PS099';
        EXCEPTION WHEN SQLSTATE 'PS099' THEN
        END;
    END LOOP;
END
$$;

CREATE FUNCTION penstock.write_audit_v1(p_by text, p_action text, p_tenant text, p_target text, p_detail jsonb) RETURNS text
    LANGUAGE sql
    SET search_path TO 'penstock', 'pg_temp'
    AS $$
    INSERT INTO audit (actor, action, tenant, target, detail)
    SELECT coalesce(p_by, session_user), p_action,
           coalesce(nullif(current_setting('penstock.tenant', true), ''), p_tenant, ''), p_target, p_detail
    RETURNING tenant
$$;

CREATE TABLE penstock.api_key (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    secret_hash bytea NOT NULL,
    scopes text[] NOT NULL,
    tenant text COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_by text NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    replaced_by text COLLATE pg_catalog."C",
    CONSTRAINT api_key_admin_has_no_tenant CHECK (((tenant IS NULL) OR (NOT ('admin'::text = ANY (scopes))))),
    CONSTRAINT api_key_id_is_a_word CHECK ((id ~ '^[0-9a-z]{8,32}$'::text)),
    CONSTRAINT api_key_name_not_empty CHECK ((name <> ''::text)),
    CONSTRAINT api_key_scopes_are_known CHECK (((scopes <@ '{read,enqueue,operate,admin,on_behalf}'::text[]) AND (cardinality(scopes) > 0))),
    CONSTRAINT api_key_secret_hash_is_sha256 CHECK ((octet_length(secret_hash) = 32)),
    CONSTRAINT api_key_tenant_not_empty CHECK ((tenant <> ''::text))
);

CREATE TABLE penstock.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    tenant text DEFAULT ''::text NOT NULL,
    target text,
    detail jsonb
);

ALTER TABLE penstock.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.batch (
    id bigint NOT NULL,
    tenant text DEFAULT ''::text NOT NULL,
    name text,
    total bigint DEFAULT 0 NOT NULL,
    pending bigint DEFAULT 0 NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    cancelled bigint DEFAULT 0 NOT NULL,
    callbacks jsonb,
    meta jsonb,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    closed_at timestamp with time zone,
    finished_at timestamp with time zone,
    folded_at timestamp with time zone,
    rate double precision DEFAULT 0 NOT NULL,
    rate_weight double precision DEFAULT 0 NOT NULL,
    failure_job bigint,
    success_job bigint,
    end_job bigint,
    cancelled_at timestamp with time zone,
    CONSTRAINT batch_callbacks_is_object CHECK ((jsonb_typeof(callbacks) = 'object'::text)),
    CONSTRAINT batch_cancelled_only_when_closed CHECK (((cancelled_at IS NULL) OR (closed_at IS NOT NULL))),
    CONSTRAINT batch_finished_only_when_closed CHECK (((finished_at IS NULL) OR (closed_at IS NOT NULL))),
    CONSTRAINT batch_meta_is_object CHECK ((jsonb_typeof(meta) = 'object'::text))
);

CREATE TABLE penstock.batch_delta (
    id bigint NOT NULL,
    batch bigint NOT NULL,
    total integer DEFAULT 0 NOT NULL,
    pending integer DEFAULT 0 NOT NULL,
    completed integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    cancelled integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

ALTER TABLE penstock.batch_delta ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.batch_delta_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE penstock.batch ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME penstock.batch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.bucket (
    key text NOT NULL COLLATE pg_catalog."C",
    level double precision NOT NULL,
    filled_at timestamp with time zone NOT NULL,
    closed_until timestamp with time zone,
    booked double precision
)
WITH (fillfactor='50');

CREATE TABLE penstock.dependency (
    parent bigint NOT NULL,
    child bigint NOT NULL,
    on_failure text DEFAULT 'cancel'::text NOT NULL,
    workflow bigint NOT NULL,
    satisfied boolean DEFAULT false NOT NULL,
    CONSTRAINT dependency_not_on_itself CHECK ((parent <> child)),
    CONSTRAINT dependency_on_failure_known CHECK ((on_failure = ANY (ARRAY['cancel'::text, 'continue'::text, 'wait'::text])))
);

CREATE TABLE penstock.event (
    id bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    sent_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    told boolean DEFAULT true NOT NULL,
    payload jsonb NOT NULL,
    CONSTRAINT event_name_not_empty CHECK ((name <> ''::text))
);

ALTER TABLE penstock.event ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME penstock.event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.event_wait (
    job bigint NOT NULL,
    step text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    after_event bigint NOT NULL,
    until timestamp with time zone,
    woken boolean DEFAULT false NOT NULL
);

CREATE TABLE penstock."grant" (
    lease bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    slots integer NOT NULL,
    wanted integer DEFAULT 0 NOT NULL,
    CONSTRAINT grant_slots_not_negative CHECK (((slots >= 0) AND (wanted >= 0) AND ((slots + wanted) > 0)))
);

ALTER TABLE penstock.job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME penstock.job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE penstock.lane_setting (
    queue text NOT NULL COLLATE pg_catalog."C",
    lane text NOT NULL COLLATE pg_catalog."C",
    weight integer DEFAULT 1 NOT NULL,
    paused_at timestamp with time zone,
    windows jsonb,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    late_after double precision,
    CONSTRAINT lane_setting_late_after_positive CHECK ((late_after > (0)::double precision)),
    CONSTRAINT lane_setting_weight_in_range CHECK ((weight <= 1000)),
    CONSTRAINT lane_setting_weight_positive CHECK ((weight >= 1)),
    CONSTRAINT lane_setting_windows_is_object CHECK ((jsonb_typeof(windows) = 'object'::text))
);

CREATE TABLE penstock.leader (
    role text NOT NULL COLLATE pg_catalog."C",
    lease bigint NOT NULL,
    elected_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE penstock.lease (
    id bigint DEFAULT (1 + ((('x'::text || encode(sha256(uuid_send(gen_random_uuid())), 'hex'::text)))::bit(53))::bigint) NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    renewed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    kind text DEFAULT 'worker'::text NOT NULL,
    worker text NOT NULL,
    info jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT lease_info_is_object CHECK ((jsonb_typeof(info) = 'object'::text)),
    CONSTRAINT lease_kind_known CHECK ((kind = ANY (ARRAY['worker'::text, 'push'::text])))
)
WITH (fillfactor='50');

CREATE TABLE penstock.limit_setting (
    key text NOT NULL COLLATE pg_catalog."C",
    slots integer,
    rate double precision,
    burst double precision,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT limit_setting_burst_with_rate CHECK ((((rate IS NULL) = (burst IS NULL)) AND (burst > (0)::double precision))),
    CONSTRAINT limit_setting_limits_something CHECK (((slots IS NOT NULL) OR (rate IS NOT NULL))),
    CONSTRAINT limit_setting_rate_not_negative CHECK ((rate >= (0)::double precision)),
    CONSTRAINT limit_setting_slots_not_negative CHECK ((slots >= 0))
);

CREATE TABLE penstock.login (
    secret_hash bytea NOT NULL,
    person text NOT NULL COLLATE pg_catalog."C",
    csrf text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT login_secret_hash_is_sha256 CHECK ((octet_length(secret_hash) = 32))
);

CREATE TABLE penstock.login_failure (
    subject bytea NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    last_at timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL
);

CREATE TABLE penstock.migration (
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE penstock.person (
    name text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL,
    password_hash text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    created_by text NOT NULL,
    disabled_at timestamp with time zone,
    CONSTRAINT person_name_is_a_word CHECK ((name ~ '^[^[:space:][:cntrl:]:]{1,100}$'::text)),
    CONSTRAINT person_role_is_known CHECK ((role = ANY (ARRAY['viewer'::text, 'operator'::text, 'admin'::text])))
);

CREATE TABLE penstock.plan (
    name text NOT NULL COLLATE pg_catalog."C",
    priority smallint DEFAULT 0 NOT NULL,
    weight integer DEFAULT 1 NOT NULL,
    late_after double precision,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT plan_late_after_positive CHECK ((late_after > (0)::double precision)),
    CONSTRAINT plan_priority_in_range CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT plan_weight_in_range CHECK (((weight >= 1) AND (weight <= 1000)))
);

CREATE TABLE penstock.progress (
    job bigint NOT NULL,
    done double precision NOT NULL,
    total double precision,
    version bigint DEFAULT 1 NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    message text
)
WITH (fillfactor='70');

CREATE TABLE penstock.queue (
    name text NOT NULL COLLATE pg_catalog."C",
    paused_at timestamp with time zone,
    fair boolean DEFAULT false NOT NULL,
    lane_key text,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    windows jsonb,
    ageing double precision,
    late_after double precision,
    CONSTRAINT queue_ageing_positive CHECK ((ageing > (0)::double precision)),
    CONSTRAINT queue_lane_key_known CHECK (((lane_key = ANY (ARRAY['tenant'::text, 'task'::text, 'subject'::text, 'requested_by'::text])) OR (lane_key ~ '^(args|meta)[.].+'::text))),
    CONSTRAINT queue_late_after_positive CHECK ((late_after > (0)::double precision)),
    CONSTRAINT queue_windows_is_object CHECK ((jsonb_typeof(windows) = 'object'::text))
);

CREATE TABLE penstock.retention (
    queue text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    tenant text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL COLLATE pg_catalog."C",
    days integer NOT NULL,
    CONSTRAINT retention_days_in_range CHECK (((days >= 0) AND (days <= 400))),
    CONSTRAINT retention_state_is_final CHECK ((state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])))
);

CREATE TABLE penstock.schedule (
    name text NOT NULL COLLATE pg_catalog."C",
    tenant text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    cron text,
    every double precision,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    jitter double precision DEFAULT 0 NOT NULL,
    overlap text DEFAULT 'skip'::text NOT NULL,
    catch_up text DEFAULT 'skip'::text NOT NULL,
    on_start boolean DEFAULT false NOT NULL,
    wins text DEFAULT 'runtime'::text NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    anchor timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    done_until timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    next_at timestamp with time zone,
    started_at timestamp with time zone,
    paused_at timestamp with time zone,
    edited_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    request jsonb NOT NULL,
    declared jsonb,
    CONSTRAINT schedule_catch_up_known CHECK ((catch_up = ANY (ARRAY['skip'::text, 'once'::text, 'all'::text]))),
    CONSTRAINT schedule_cron_or_interval CHECK (((cron IS NULL) <> (every IS NULL))),
    CONSTRAINT schedule_edited_only_if_declared CHECK (((edited_at IS NULL) OR (declared IS NOT NULL))),
    CONSTRAINT schedule_interval_positive CHECK ((every > (0)::double precision)),
    CONSTRAINT schedule_jitter_not_negative CHECK ((jitter >= (0)::double precision)),
    CONSTRAINT schedule_overlap_known CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue_one'::text, 'allow'::text]))),
    CONSTRAINT schedule_request_names_a_task CHECK ((jsonb_typeof((request -> 'task'::text)) = 'string'::text)),
    CONSTRAINT schedule_wins_known CHECK ((wins = ANY (ARRAY['runtime'::text, 'code'::text])))
)
WITH (fillfactor='70');

CREATE TABLE penstock.schedule_fire (
    schedule text NOT NULL COLLATE pg_catalog."C",
    tick timestamp with time zone NOT NULL,
    kind text DEFAULT 'tick'::text NOT NULL,
    ticks integer DEFAULT 1 NOT NULL,
    job bigint,
    why text,
    fired_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT schedule_fire_job_or_why CHECK (((job IS NULL) = (why IS NOT NULL))),
    CONSTRAINT schedule_fire_kind_known CHECK ((kind = ANY (ARRAY['tick'::text, 'start'::text, 'manual'::text]))),
    CONSTRAINT schedule_fire_why_known CHECK ((why = ANY (ARRAY['running'::text, 'waiting'::text, 'missed'::text])))
);

CREATE TABLE penstock.setting_version (
    version bigint DEFAULT 1 NOT NULL,
    places boolean DEFAULT false NOT NULL,
    is_only boolean DEFAULT true NOT NULL,
    CONSTRAINT setting_version_is_one_row CHECK (is_only)
)
WITH (fillfactor='50');

CREATE TABLE penstock.signal (
    lease bigint NOT NULL,
    job bigint NOT NULL,
    token uuid NOT NULL,
    kind text NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT signal_kind_known CHECK ((kind = ANY (ARRAY['cancelled'::text, 'superseded'::text])))
);

CREATE TABLE penstock.step (
    job bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    result jsonb,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    kind text DEFAULT 'step'::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT step_kind_known CHECK ((kind = ANY (ARRAY['step'::text, 'sleep'::text, 'event'::text, 'poll'::text])))
);

CREATE TABLE penstock.step_cache (
    tenant text NOT NULL COLLATE pg_catalog."C",
    key bytea NOT NULL,
    size integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    result jsonb NOT NULL,
    CONSTRAINT step_cache_key_is_sha256 CHECK ((octet_length(key) = 32))
);

CREATE TABLE penstock.tenant_setting (
    tenant text NOT NULL COLLATE pg_catalog."C",
    plan text COLLATE pg_catalog."C",
    late_after double precision,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT tenant_setting_late_after_positive CHECK ((late_after > (0)::double precision))
);

CREATE TABLE penstock.unique_claim (
    kind text NOT NULL COLLATE pg_catalog."C",
    tenant text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    job bigint NOT NULL,
    fingerprint bytea,
    expires_at timestamp with time zone,
    keep double precision,
    until timestamp with time zone,
    CONSTRAINT unique_claim_idempotency_expires CHECK (((kind <> 'idempotency'::text) OR (expires_at IS NOT NULL))),
    CONSTRAINT unique_claim_kind_known CHECK ((kind = ANY (ARRAY['unique'::text, 'idempotency'::text])))
);

CREATE TABLE penstock.workflow (
    id bigint NOT NULL,
    tenant text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    name text,
    meta jsonb,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT workflow_meta_is_object CHECK ((jsonb_typeof(meta) = 'object'::text))
);

ALTER TABLE penstock.workflow ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME penstock.workflow_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY penstock.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.batch_delta
    ADD CONSTRAINT batch_delta_pkey PRIMARY KEY (batch, id);

ALTER TABLE ONLY penstock.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.bucket
    ADD CONSTRAINT bucket_pkey PRIMARY KEY (key);

ALTER TABLE ONLY penstock.dependency
    ADD CONSTRAINT dependency_pkey PRIMARY KEY (parent, child);

ALTER TABLE ONLY penstock.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.event_wait
    ADD CONSTRAINT event_wait_pkey PRIMARY KEY (job, step);

ALTER TABLE ONLY penstock."grant"
    ADD CONSTRAINT grant_pkey PRIMARY KEY (key, lease);

ALTER TABLE ONLY penstock.job_history
    ADD CONSTRAINT job_history_pkey PRIMARY KEY (id, expires_on);

ALTER TABLE ONLY penstock.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.lane_setting
    ADD CONSTRAINT lane_setting_pkey PRIMARY KEY (queue, lane);

ALTER TABLE ONLY penstock.leader
    ADD CONSTRAINT leader_pkey PRIMARY KEY (role);

ALTER TABLE ONLY penstock.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (id);

ALTER TABLE ONLY penstock.limit_setting
    ADD CONSTRAINT limit_setting_pkey PRIMARY KEY (key);

ALTER TABLE ONLY penstock.login_failure
    ADD CONSTRAINT login_failure_pkey PRIMARY KEY (subject);

ALTER TABLE ONLY penstock.login
    ADD CONSTRAINT login_pkey PRIMARY KEY (secret_hash);

ALTER TABLE ONLY penstock.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY penstock.person
    ADD CONSTRAINT person_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.plan
    ADD CONSTRAINT plan_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (job);

ALTER TABLE ONLY penstock.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.retention
    ADD CONSTRAINT retention_pkey PRIMARY KEY (state, queue, tenant);

ALTER TABLE ONLY penstock.schedule_fire
    ADD CONSTRAINT schedule_fire_pkey PRIMARY KEY (schedule, tick);

ALTER TABLE ONLY penstock.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (name);

ALTER TABLE ONLY penstock.setting_version
    ADD CONSTRAINT setting_version_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY penstock.signal
    ADD CONSTRAINT signal_pkey PRIMARY KEY (lease, job, token);

ALTER TABLE ONLY penstock.step_cache
    ADD CONSTRAINT step_cache_pkey PRIMARY KEY (tenant, key);

ALTER TABLE ONLY penstock.step
    ADD CONSTRAINT step_pkey PRIMARY KEY (job, kind, name);

ALTER TABLE ONLY penstock.tenant_setting
    ADD CONSTRAINT tenant_setting_pkey PRIMARY KEY (tenant);

ALTER TABLE ONLY penstock.unique_claim
    ADD CONSTRAINT unique_claim_pkey PRIMARY KEY (kind, tenant, key);

ALTER TABLE ONLY penstock.workflow
    ADD CONSTRAINT workflow_pkey PRIMARY KEY (id);

CREATE UNIQUE INDEX api_key_name ON penstock.api_key USING btree (name) WHERE ((revoked_at IS NULL) AND (replaced_by IS NULL));

CREATE INDEX audit_actor ON penstock.audit USING btree (actor, id);

CREATE INDEX audit_target ON penstock.audit USING btree (target, id) WHERE (target IS NOT NULL);

CREATE INDEX batch_created ON penstock.batch USING btree (tenant, id);

CREATE INDEX batch_finished ON penstock.batch USING btree (finished_at) WHERE (finished_at IS NOT NULL);

CREATE INDEX batch_unfinished ON penstock.batch USING btree (id) WHERE (finished_at IS NULL);

CREATE INDEX dependency_child ON penstock.dependency USING btree (child);

CREATE INDEX dependency_workflow ON penstock.dependency USING btree (workflow);

CREATE INDEX event_expiry ON penstock.event USING btree (expires_at);

CREATE INDEX event_name ON penstock.event USING btree (tenant, name, id);

CREATE INDEX event_untold ON penstock.event USING btree (id) WHERE (NOT told);

CREATE INDEX event_wait_name ON penstock.event_wait USING btree (tenant, name, job) WHERE (NOT woken);

CREATE INDEX event_wait_until ON penstock.event_wait USING btree (until) WHERE ((NOT woken) AND (until IS NOT NULL));

CREATE INDEX grant_lease ON penstock."grant" USING btree (lease);

CREATE INDEX job_batch ON penstock.job USING btree (batch, id) WHERE (batch IS NOT NULL);

CREATE INDEX job_blocked ON penstock.job USING btree (queue) WHERE (state = 'blocked'::text);

CREATE INDEX job_deadline ON penstock.job USING btree (deadline) WHERE (deadline IS NOT NULL);

CREATE INDEX job_history_batch ON ONLY penstock.job_history USING btree (batch, id) WHERE (batch IS NOT NULL);

CREATE INDEX job_history_failed ON ONLY penstock.job_history USING btree (finished_at) WHERE (state = 'failed'::text);

CREATE INDEX job_history_subject ON ONLY penstock.job_history USING btree (tenant, subject) WHERE (subject IS NOT NULL);

CREATE INDEX job_history_workflow ON ONLY penstock.job_history USING btree (workflow) WHERE (workflow IS NOT NULL);

CREATE INDEX job_ready ON penstock.job USING btree (queue, lane, priority DESC, ready_at, id) WHERE (state = 'ready'::text);

CREATE INDEX job_running ON penstock.job USING btree (lease) WHERE (state = 'running'::text);

CREATE INDEX job_scheduled ON penstock.job USING btree (run_at) WHERE (state = 'scheduled'::text);

CREATE INDEX job_subject ON penstock.job USING btree (tenant, subject) WHERE (subject IS NOT NULL);

CREATE INDEX job_workflow ON penstock.job USING btree (workflow) WHERE (workflow IS NOT NULL);

CREATE INDEX login_expiry ON penstock.login USING btree (expires_at);

CREATE INDEX login_failure_age ON penstock.login_failure USING btree (last_at);

CREATE INDEX login_person ON penstock.login USING btree (person);

CREATE INDEX schedule_fire_job ON penstock.schedule_fire USING btree (schedule, tick) WHERE (job IS NOT NULL);

CREATE INDEX step_cache_expiry ON penstock.step_cache USING btree (expires_at);

CREATE INDEX step_cache_use ON penstock.step_cache USING btree (used_at) INCLUDE (size);

CREATE INDEX unique_claim_expiry ON penstock.unique_claim USING btree (expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX unique_claim_job ON penstock.unique_claim USING btree (job);

CREATE INDEX workflow_created ON penstock.workflow USING btree (created_at);

CREATE TRIGGER lane_setting_tells_workers AFTER INSERT OR DELETE OR UPDATE ON penstock.lane_setting FOR EACH STATEMENT EXECUTE FUNCTION penstock.settings_changed_v1();

CREATE TRIGGER limit_setting_tells_workers AFTER INSERT OR DELETE OR UPDATE ON penstock.limit_setting FOR EACH STATEMENT EXECUTE FUNCTION penstock.settings_changed_v1();

CREATE TRIGGER plan_tells_workers AFTER INSERT OR DELETE OR UPDATE ON penstock.plan FOR EACH STATEMENT EXECUTE FUNCTION penstock.settings_changed_v1();

CREATE TRIGGER queue_tells_workers AFTER INSERT OR DELETE OR UPDATE ON penstock.queue FOR EACH STATEMENT EXECUTE FUNCTION penstock.settings_changed_v1();

CREATE TRIGGER retention_is_covered AFTER INSERT OR UPDATE ON penstock.retention FOR EACH STATEMENT EXECUTE FUNCTION penstock.cover_retention_v1();

CREATE TRIGGER schedule_starts_anew BEFORE INSERT OR UPDATE OF tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request, paused_at ON penstock.schedule FOR EACH ROW EXECUTE FUNCTION penstock.schedule_changed_v1();

CREATE TRIGGER tenant_setting_tells_workers AFTER INSERT OR DELETE OR UPDATE ON penstock.tenant_setting FOR EACH STATEMENT EXECUTE FUNCTION penstock.settings_changed_v1();
