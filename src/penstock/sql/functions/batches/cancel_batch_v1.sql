-- End some jobs of a batch, behind an id, in the order of their ids: how many were found, how many cancelled, and the
-- last one's id. Who closes the batch first, and goes on until fewer are found than asked for, has ended all of them.
--
-- A range of one batch, not the one batch: for that the planner might walk through all jobs by their ids, or sort.
CREATE FUNCTION :"schema".cancel_batch_v1(
    p_batch bigint, p_after bigint, p_limit integer, p_reason text DEFAULT 'requested', p_now timestamptz DEFAULT NULL
) RETURNS TABLE (found integer, cancelled integer, last bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(SELECT j.id FROM job AS j
                    WHERE (j.batch, j.id) > (p_batch, p_after) AND j.batch <= p_batch
                    ORDER BY j.batch, j.id LIMIT p_limit);
    RETURN QUERY
    SELECT count(*)::integer, (count(*) FILTER (WHERE c.answer = 'cancelled'))::integer, max(c.id)
      FROM cancel_v1(v_ids, p_reason, p_now) AS c;
END
$$;
