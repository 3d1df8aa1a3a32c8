-- Wake up to some number of jobs that wait for an event. Returns how many, and whether these were all. Jobs whose rows
-- others have locked are skipped.
-- The locks of the waits are kept until the transaction ends; reschedule_v1 says why.
CREATE FUNCTION :"schema".wake_waiters_v1(
    p_event bigint, p_tenant text, p_name text, p_limit integer, p_notify boolean, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (woken integer, all_told boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_jobs  bigint[];
    v_woken bigint[];
    v_most  integer;
    v_held  integer := 0;
BEGIN
    woken := 0;
    LOOP
        v_most := p_limit - woken;
        v_jobs := ARRAY(
            SELECT w.job FROM event_wait AS w
             WHERE w.tenant = p_tenant AND w.name = p_name AND w.after_event < p_event AND NOT w.woken
             ORDER BY w.job OFFSET v_held LIMIT v_most FOR UPDATE SKIP LOCKED);
        v_woken := wake_jobs_v1(v_jobs, p_notify, p_now);
        IF cardinality(v_woken) > 0 THEN
            UPDATE event_wait AS w SET woken = true
             WHERE w.job = ANY (v_woken) AND w.tenant = p_tenant AND w.name = p_name AND w.after_event < p_event;
        END IF;
        woken := woken + cardinality(v_woken);
        v_held := v_held + cardinality(v_jobs) - cardinality(v_woken);
        EXIT WHEN cardinality(v_jobs) < v_most OR woken >= p_limit;
    END LOOP;
    all_told := NOT EXISTS (
        SELECT FROM event_wait AS w
         WHERE w.tenant = p_tenant AND w.name = p_name AND w.after_event < p_event AND NOT w.woken);
    RETURN NEXT;
END
$$;
