-- Delete those of some jobs that have failed, with everything stored about them.
-- Returns deleted; for a job that was left its state, or missing.
CREATE FUNCTION :"schema".purge_v1(p_ids bigint[])
RETURNS TABLE (id bigint, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_dead bigint[] := only_failed_v1(p_ids);
BEGIN
    PERFORM delete_v1(v_dead);
    RETURN QUERY
    SELECT g.id, CASE WHEN g.id = ANY (v_dead) THEN 'deleted' ELSE coalesce(a.state, 'missing') END
      FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
      LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id
     ORDER BY g.ord;
END
$$;
