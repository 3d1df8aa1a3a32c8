-- Fold the batches that have deltas, some of them: see fold_batches_v1. How many deltas were moved.
-- They are found by jumping from batch to batch in the index, however many deltas each has.
CREATE FUNCTION :"schema".fold_v1(p_limit integer DEFAULT 100, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
    v_batches bigint[];
BEGIN
    WITH RECURSIVE found AS (
        (SELECT d.batch FROM batch_delta AS d ORDER BY d.batch LIMIT 1)
        UNION ALL
        SELECT (SELECT d.batch FROM batch_delta AS d WHERE d.batch > f.batch ORDER BY d.batch LIMIT 1)
          FROM found AS f WHERE f.batch IS NOT NULL
    )
    SELECT array_agg(l.batch) INTO v_batches
      FROM (SELECT f.batch FROM found AS f WHERE f.batch IS NOT NULL LIMIT p_limit) AS l;
    IF v_batches IS NULL THEN
        RETURN 0;
    END IF;
    RETURN fold_batches_v1(v_batches, coalesce(p_now, statement_timestamp()));
END
$$;
