-- Remove what nobody needs any more, as in sweep_v2, and batches and workflows whose jobs are long gone.
CREATE FUNCTION :"schema".sweep_v3(p_limit integer DEFAULT 5000, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (leases integer, keys integer, progress integer, buckets integer, batches integer, workflows integer)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    -- Before that its jobs may well be in history: to ask for each would be to walk through all of it.
    v_gone  timestamptz := coalesce(p_now, statement_timestamp()) - make_interval(
        days => 2 + greatest(30, coalesce((SELECT max(r.days) FROM retention AS r), 0)));
    v_ended bigint[];
BEGIN
    SELECT s.leases, s.keys, s.progress, s.buckets INTO leases, keys, progress, buckets FROM sweep_v2(p_limit, p_now) AS s;

    v_ended := ARRAY(SELECT b.id FROM batch AS b
                      WHERE b.finished_at < v_gone ORDER BY b.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM batch_delta AS d WHERE d.batch = ANY (v_ended);
    DELETE FROM batch AS b WHERE b.id = ANY (v_ended);
    batches := cardinality(v_ended);

    v_ended := ARRAY(SELECT w.id FROM workflow AS w
                      WHERE w.created_at < v_gone
                        AND NOT EXISTS (SELECT FROM job AS j WHERE j.workflow = w.id)
                        AND NOT EXISTS (SELECT FROM job_history AS h WHERE h.workflow = w.id)
                      ORDER BY w.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM dependency AS d WHERE d.workflow = ANY (v_ended);
    DELETE FROM workflow AS w WHERE w.id = ANY (v_ended);
    workflows := cardinality(v_ended);
    RETURN NEXT;
END
$$;
