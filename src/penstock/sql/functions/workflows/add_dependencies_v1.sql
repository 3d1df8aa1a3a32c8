-- Store which jobs the new jobs of an enqueue wait for, and which blocked jobs wait for them. Returns for each how many
-- parents it waits for, whether it has children, and whether it must not run at all.
--
-- p_parents and p_children hold JSON, a list for each job: {"at": n} is the n-th job of the same call, which must be
-- before it, {"job": id} any other job; "on_failure" says what happens to the child if the parent does not complete.
-- A live parent is locked, so that it ends either before this or after it. A parent that has ended counts as ended.
-- A job that waits for a person to decide, because such a parent has failed, is called stalled.
-- Jobs are found by their ids: coalesce keeps the planner from walking through the whole workflow.
CREATE FUNCTION :"schema".add_dependencies_v1(
    p_jobs bigint[], p_new boolean[], p_parents text[], p_children text[], p_workflow bigint
) RETURNS TABLE (ord bigint, pending integer, has_children boolean, is_doomed boolean, is_stalled boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
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
