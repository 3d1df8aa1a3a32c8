-- Fold up to p_limit batches that have deltas: see fold_batches_v1. It begins after an id and wraps around, so that
-- batches that cannot be folded do not hold up others. The next fold continues after upto. is_idle says that no batch is
-- unfinished, so that there will be little to fold.
-- Batches are found by skipping from one to the next in the index, however many deltas each has.
CREATE FUNCTION :"schema".fold_v1(
    p_limit integer DEFAULT 100, p_after bigint DEFAULT 0, p_pace double precision DEFAULT 0, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (moved integer, passed integer, upto bigint, is_idle boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
    v_batches bigint[] := '{}';
    v_range   record;
BEGIN
    FOR v_range IN SELECT r.low, r.high FROM (VALUES (p_after, 9223372036854775807), (0, p_after)) AS r (low, high) LOOP
        v_batches := v_batches || ARRAY(
            WITH RECURSIVE found AS (
                (SELECT d.batch FROM batch_delta AS d
                  WHERE d.batch > v_range.low AND d.batch <= v_range.high ORDER BY d.batch LIMIT 1)
                UNION ALL
                SELECT (SELECT d.batch FROM batch_delta AS d
                         WHERE d.batch > f.batch AND d.batch <= v_range.high ORDER BY d.batch LIMIT 1)
                  FROM found AS f WHERE f.batch IS NOT NULL
            )
            SELECT f.batch FROM found AS f WHERE f.batch IS NOT NULL LIMIT p_limit - cardinality(v_batches));
    END LOOP;
    moved := 0;
    passed := 0;
    upto := coalesce(v_batches[cardinality(v_batches)], 0);
    IF cardinality(v_batches) > 0 THEN
        SELECT f.moved, f.passed INTO moved, passed
          FROM fold_batches_v1(v_batches, p_pace, coalesce(p_now, statement_timestamp())) AS f;
    END IF;
    is_idle := NOT EXISTS (SELECT FROM batch AS b WHERE b.finished_at IS NULL);
    RETURN NEXT;
END
$$;
