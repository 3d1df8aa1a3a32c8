-- Add jobs to the workflow of a running job, for the attempt that owns it; see extend_workflow_v1.
-- Jobs that the same call of an earlier attempt has added are not added again. If the workflow is locked, this fails with
-- 55P03 and the caller retries soon, because a worker has few connections to wait on.
CREATE FUNCTION :"schema".extend_own_workflow_v1(
    p_job bigint, p_token uuid, p_call integer, p_steps jsonb, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, duplicate boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET lock_timeout = '100ms'
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
