-- Write the outcomes that keep a job live (retry, snooze, release, park): it becomes ready or scheduled again, or
-- blocked while it waits for an event.
-- Notifies the workers of lanes with ready jobs, and the leader of the time when the next job is due.
--
-- A sender and a job that begins to wait must never miss each other. The wait was inserted and committed before
-- (await_event_v1), under a lock that senders of the event take first. So a sender whose event was not visible then sees
-- the wait, and holds the lock of its row until it has committed. Here that row is locked without waiting:
--   it is free and the sender has committed: a statement that begins after the lock sees the event, and the job becomes
--     ready instead of blocked;
--   it is free and the sender has not reached it: the sender skips the row while it is locked here and leaves the wait to
--     the leader, or it finds the row later; in both cases it sees the blocked job and wakes it;
--   it is locked, and nobody knows whether the sender will commit: the job checks again in a second.
CREATE FUNCTION :"schema".reschedule_v1(
    p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_delays double precision[],
    p_failures smallint[], p_stuck boolean[], p_errors text[], p_now timestamptz
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_states  text[] := p_states;
    v_delays  double precision[] := p_delays;
    v_blocked integer := 0;
    v_back    integer;
BEGIN
    IF 'blocked' = ANY (p_states) THEN
        SELECT array_agg(coalesce(h.state, g.state) ORDER BY g.ord),
               array_agg(CASE h.state WHEN 'scheduled' THEN 1 ELSE g.delay END ORDER BY g.ord)
          INTO v_states, v_delays
          FROM unnest(p_ids, p_states, p_delays) WITH ORDINALITY AS g (id, state, delay, ord)
          LEFT JOIN lock_event_waits_v1(ARRAY(
                    SELECT b.id FROM unnest(p_ids, p_states) AS b (id, state) WHERE b.state = 'blocked'), p_now) AS h
            ON h.job = g.id AND g.state = 'blocked';
        UPDATE job AS j
           SET state = 'blocked', reason = g.reason, lease = NULL, token = NULL, last_token = j.token, ready_at = NULL,
               stuck_since = NULL
          FROM unnest(p_ids, p_tokens, v_states, p_reasons) AS g (id, token, state, reason)
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token AND g.state = 'blocked';
        GET DIAGNOSTICS v_blocked = ROW_COUNT;
    END IF;
    WITH given AS (
        SELECT g.id, g.token, g.state, g.reason, coalesce(g.delay, 0) AS delay,
               coalesce(g.failure, 0) AS failure, coalesce(g.stuck, false) AS stuck, g.error
          FROM unnest(p_ids, p_tokens, v_states, p_reasons, v_delays, p_failures, p_stuck, p_errors)
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
    SELECT (SELECT count(*) FROM back) + 0 * (SELECT count(*) FROM told) INTO v_back;
    RETURN v_blocked + v_back;
END
$$;
