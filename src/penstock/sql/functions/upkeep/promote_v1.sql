-- Make due scheduled jobs ready, from the time p_after on. Returns how many, the time to continue from, and the seconds
-- until the next job is due.
CREATE FUNCTION :"schema".promote_v1(
    p_after timestamptz DEFAULT '-infinity', p_limit integer DEFAULT 2000, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (promoted integer, upto timestamptz, next_in double precision)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := coalesce(p_now, statement_timestamp());
BEGIN
    WITH up AS (
        UPDATE job AS j
           SET state = 'ready', ready_at = coalesce(p_now, clock_timestamp())
         WHERE j.id = ANY (ARRAY(
               SELECT s.id FROM job AS s
                WHERE s.state = 'scheduled' AND s.run_at >= p_after AND s.run_at <= v_now
                ORDER BY s.run_at
                LIMIT p_limit
                  FOR NO KEY UPDATE SKIP LOCKED))
        RETURNING j.queue, j.lane, j.priority, j.ready_at, j.run_at
    ), told AS (
        SELECT notify_ready_v1(u.queue, u.lane, u.priority, min(u.ready_at))
          FROM up AS u GROUP BY u.queue, u.lane, u.priority
    )
    SELECT count(*)::integer, coalesce(max(u.run_at), p_after) + 0 * ((SELECT count(*) FROM told) * interval '1 s')
      INTO promoted, upto FROM up AS u;
    SELECT extract(epoch FROM s.run_at - v_now)::double precision INTO next_in
      FROM job AS s
     WHERE s.state = 'scheduled' AND s.run_at >= upto
     ORDER BY s.run_at
     LIMIT 1;
    RETURN NEXT;
END
$$;
