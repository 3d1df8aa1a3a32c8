-- Enqueue many jobs in one statement; returns one row per job, in order.
-- An array that is NULL means the default for every job. Keys are idempotency keys: for a key that is taken, the row has
-- the job that it belongs to; if the fingerprint of the arguments differs, it is an error.
-- A job without a tenant belongs to the tenant of the transaction (SET LOCAL penstock.tenant).
-- All jobs go to one batch (p_batch) or workflow (p_workflow), where p_steps are their names. For p_parents and
-- p_children see add_dependencies_v1. A unique rule is {"key", "period", "hold", "keep", "on_conflict"}: see
-- claim_unique_keys_v1. With a period, the key is held within the period in which the job is enqueued.
-- assign_lanes_v1 chooses the lane of each job. lane and priority are returned only if they differ from the parameters.
-- The insert reads no table, so one plan serves all calls: planning it for each call would double the cost.
CREATE FUNCTION :"schema".enqueue_v1(
    p_tasks text[], p_args text[], p_args_versions smallint[] DEFAULT NULL, p_queues text[] DEFAULT NULL,
    p_lanes text[] DEFAULT NULL, p_limits text[] DEFAULT NULL, p_priorities smallint[] DEFAULT NULL,
    p_delays double precision[] DEFAULT NULL, p_run_ats timestamptz[] DEFAULT NULL,
    p_max_attempts integer[] DEFAULT NULL, p_timeouts double precision[] DEFAULT NULL,
    p_tenants text[] DEFAULT NULL, p_subjects text[] DEFAULT NULL, p_requested_bys text[] DEFAULT NULL,
    p_tags text[] DEFAULT NULL, p_metas text[] DEFAULT NULL, p_retries text[] DEFAULT NULL,
    p_deadlines timestamptz[] DEFAULT NULL, p_keys text[] DEFAULT NULL,
    p_fingerprints bytea[] DEFAULT NULL, p_uniques text[] DEFAULT NULL, p_batch bigint DEFAULT NULL,
    p_workflow bigint DEFAULT NULL, p_steps text[] DEFAULT NULL, p_parents text[] DEFAULT NULL,
    p_children text[] DEFAULT NULL, p_now timestamptz DEFAULT NULL, p_options jsonb DEFAULT NULL
) RETURNS TABLE (id bigint, duplicate boolean, lane text, priority smallint)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
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
