-- Return an object that maps step names of a workflow to job ids. Raises an error unless each name means one job.
CREATE FUNCTION :"schema".resolve_steps_v1(p_workflow bigint, p_names text[]) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
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
