-- Add jobs to a workflow, after and before jobs that it already has; one row for each, in order.
-- A step is {"request", "step", "parents", "children"}: a stored request, its name, and edges in the form of
-- add_dependencies_v1, where {"step": name} also names a job of the workflow. The steps of one scope are added once: a
-- second call for the same steps returns the jobs that the first one added.
CREATE FUNCTION :"schema".extend_workflow_v1(
    p_workflow bigint, p_steps jsonb, p_scope text DEFAULT NULL, p_now timestamptz DEFAULT NULL,
    p_options jsonb DEFAULT NULL
) RETURNS TABLE (id bigint, duplicate boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
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
