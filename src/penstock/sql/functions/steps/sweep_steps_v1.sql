-- Remove the steps of jobs that exist neither live nor in history, among the next jobs after one. Returns how many, and
-- the last job that was checked; NULL at the end. Checking all steps each time would read the whole history.
CREATE FUNCTION :"schema".sweep_steps_v1(p_after bigint DEFAULT 0, p_limit integer DEFAULT 1000)
RETURNS TABLE (swept integer, upto bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
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
