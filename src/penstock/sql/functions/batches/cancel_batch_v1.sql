-- Cancel some jobs of a batch, after an id and in the order of ids. Returns how many were found, how many cancelled, and
-- the id of the last one. A caller that closes the batch first, and repeats this until fewer than p_limit are found, has
-- cancelled all of them.
--
-- The condition is a range that covers one batch: for an equality the planner might walk all jobs by id, or sort.
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
