-- Return the state of jobs that are about to wait for events: blocked, ready if the event has been sent, or scheduled if
-- that is unknown at the moment. Waits that nobody else has locked stay locked until the transaction ends.
CREATE FUNCTION :"schema".lock_event_waits_v1(p_jobs bigint[], p_now timestamptz)
RETURNS TABLE (job bigint, state text)
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
    v_steps text[];
BEGIN
    SELECT coalesce(array_agg(h.job), '{}'), coalesce(array_agg(h.step), '{}') INTO v_jobs, v_steps
      FROM (SELECT w.job, w.step FROM event_wait AS w WHERE w.job = ANY (p_jobs) FOR UPDATE SKIP LOCKED) AS h;
    RETURN QUERY
    SELECT g.job,
           CASE WHEN count(w.job) = 0 THEN 'ready'
                WHEN bool_or(w.woken OR w.until <= p_now OR EXISTS (
                     SELECT FROM event AS e
                      WHERE e.tenant = w.tenant AND e.name = w.name AND e.id > w.after_event
                        AND e.expires_at > p_now)) THEN 'ready'
                WHEN bool_or(h.job IS NULL) THEN 'scheduled'
                ELSE 'blocked' END
      FROM unnest(p_jobs) AS g (job)
      LEFT JOIN event_wait AS w ON w.job = g.job AND w.job = ANY (p_jobs)
      LEFT JOIN unnest(v_jobs, v_steps) AS h (job, step) ON h.job = w.job AND h.step = w.step
     GROUP BY g.job;
END
$$;
