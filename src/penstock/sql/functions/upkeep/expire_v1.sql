-- Cancel waiting jobs whose deadline has passed, with the reason expired. A running job may finish.
CREATE FUNCTION :"schema".expire_v1(p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
    v_ids bigint[];
BEGIN
    v_ids := ARRAY(
        SELECT j.id FROM job AS j
         WHERE j.deadline <= v_now AND j.state <> 'running'
         ORDER BY j.deadline
         LIMIT p_limit
           FOR UPDATE SKIP LOCKED);
    IF cardinality(v_ids) = 0 THEN
        RETURN 0;
    END IF;
    RETURN finish_jobs_v1(v_ids, NULL, array_fill('cancelled'::text, ARRAY[cardinality(v_ids)]),
                          array_fill('expired'::text, ARRAY[cardinality(v_ids)]), NULL, NULL, NULL, NULL,
                          false, v_now);
END
$$;
