-- Return the jobs of workflows, live or final, with what people and other steps need of them. One snapshot covers both
-- tables, so a job that moves between them meanwhile is not missed.
--
-- Nothing says in which partitions of the history they are. So it reads a few partitions at a time, and releases their
-- locks by rolling back the subtransaction that took them; see history_dates_v1. The error is converted to text there,
-- because the partition may be dropped afterwards.
CREATE FUNCTION :"schema".workflow_jobs_v1(p_workflows bigint[])
RETURNS TABLE (id bigint, workflow bigint, step text, task text, state text, reason text, attempt integer, pending integer,
               has_children boolean, run_at timestamptz, attempted_at timestamptz, finished_at timestamptz, error text)
LANGUAGE plpgsql STABLE ROWS 100
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
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
