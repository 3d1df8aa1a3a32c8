-- Return the outcomes of the jobs that a job has waited for, to the attempt that owns it. A completed parent has no
-- error, however often it failed before.
-- Only parents in the same workflow are returned: a forged edge to a job of somebody else shows nothing.
CREATE FUNCTION :"schema".read_parents_v1(p_job bigint, p_token uuid)
RETURNS TABLE (id bigint, step text, task text, state text, reason text, result jsonb, error text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
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
