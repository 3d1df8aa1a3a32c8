-- The outcomes that keep a job alive (retry, snooze, release, park): back to ready or scheduled.
-- Tells the workers about lines that became ready, and the promoter when the next job is due.
CREATE FUNCTION :"schema".put_back_v1(
    p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_delays double precision[],
    p_failures smallint[], p_stuck boolean[], p_errors text[], p_now timestamptz
) RETURNS integer
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
    WITH given AS (
        SELECT g.id, g.token, g.state, g.reason, coalesce(g.delay, 0) AS delay,
               coalesce(g.failure, 0) AS failure, coalesce(g.stuck, false) AS stuck, g.error
          FROM unnest(p_ids, p_tokens, p_states, p_reasons, p_delays, p_failures, p_stuck, p_errors)
            AS g (id, token, state, reason, delay, failure, stuck, error)
         WHERE g.state IN ('ready', 'scheduled')
    ), back AS (
        UPDATE job AS j
           SET state = g.state, reason = g.reason, lease = NULL, token = NULL, last_token = j.token,
               failures = j.failures + g.failure,
               run_at = p_now + make_interval(secs => g.delay),
               ready_at = CASE WHEN g.state = 'ready' THEN clock_timestamp() END,
               stuck_since = CASE WHEN g.stuck THEN coalesce(j.stuck_since, p_now) END,
               errors = CASE WHEN g.error IS NULL THEN j.errors
                             ELSE coalesce(j.errors, '[]') || (g.error::jsonb
                                  || jsonb_build_object('at', p_now, 'began', j.attempted_at)) END
          FROM given AS g
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
        RETURNING j.state, j.queue, j.lane, j.priority, j.ready_at, j.run_at
    ), told AS (
        SELECT notify_ready_v1(b.queue, b.lane, b.priority, min(b.ready_at))
          FROM back AS b WHERE b.state = 'ready' GROUP BY b.queue, b.lane, b.priority
        UNION ALL
        SELECT notify_due_v1(min(b.run_at)) FROM back AS b WHERE b.state = 'scheduled' HAVING count(*) > 0
    )
    SELECT ((SELECT count(*) FROM back) + 0 * (SELECT count(*) FROM told))::integer;
$$;
