-- Run the failed and cancelled jobs of a workflow again, each after the jobs that it waits for. Returns how many, or
-- NULL if the workflow does not exist.
CREATE FUNCTION :"schema".retry_workflow_v1(p_workflow bigint, p_now timestamptz DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
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
