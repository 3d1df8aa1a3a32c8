-- Cancel all jobs of a workflow that have not ended. Returns how many, or NULL if the workflow does not exist.
-- Repeats while a job of it is live: a running job may have added some in between.
CREATE FUNCTION :"schema".cancel_workflow_v1(
    p_workflow bigint, p_reason text DEFAULT 'requested', p_now timestamptz DEFAULT NULL
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
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
