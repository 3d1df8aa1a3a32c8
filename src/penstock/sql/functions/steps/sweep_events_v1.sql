-- Remove expired events, and waits of jobs that have ended, among the next waits after a job. Returns how many, and the
-- last job that was checked; NULL at the end.
CREATE FUNCTION :"schema".sweep_events_v1(
    p_after bigint DEFAULT 0, p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (events integer, waits integer, upto bigint)
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
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_jobs bigint[];
BEGIN
    DELETE FROM event AS e
     WHERE e.id = ANY (ARRAY(
           SELECT o.id FROM event AS o
            WHERE o.expires_at <= v_now ORDER BY o.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS events = ROW_COUNT;
    SELECT array_agg(DISTINCT o.job), max(o.job) INTO v_jobs, upto
      FROM (SELECT w.job FROM event_wait AS w WHERE w.job > p_after ORDER BY w.job LIMIT p_limit) AS o;
    v_jobs := ARRAY(
        SELECT w.job FROM event_wait AS w
         WHERE w.job = ANY (v_jobs) AND NOT EXISTS (SELECT FROM job AS j WHERE j.id = w.job)
         FOR UPDATE OF w SKIP LOCKED);
    -- Checked again after the lock: a job may have come back from history and wait.
    waits := 0;
    IF cardinality(v_jobs) > 0 THEN
        DELETE FROM event_wait AS w
         WHERE w.job = ANY (v_jobs) AND NOT EXISTS (SELECT FROM job AS j WHERE j.id = w.job);
        GET DIAGNOSTICS waits = ROW_COUNT;
    END IF;
    RETURN NEXT;
END
$$;
