-- The outcomes that keep a job alive, as in put_back_v1, and blocked: the job waits for an event.
--
-- A sender and a job that goes to sleep must never both miss each other. The wait was noted and committed before
-- (await_event_v1), under a lock that senders of the name take first; so a sender whose event was not seen then sees
-- the wait, and holds its row until it has committed. Here that row is taken without waiting:
--   it is free, the sender has committed: the event is seen, in a statement that begins after the lock, and the job
--     is ready instead of blocked;
--   it is free, the sender has not come to it: it skips the row while it is held here and leaves the wait to the
--     leader, or finds it later, and either sees the job blocked and wakes it;
--   it is held, a sender is about to commit or not: nobody knows, and the job asks again in a second.
CREATE FUNCTION :"schema".put_back_v2(
    p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_delays double precision[],
    p_failures smallint[], p_stuck boolean[], p_errors text[], p_now timestamptz
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_states  text[];
    v_delays  double precision[];
    v_blocked integer;
BEGIN
    IF NOT 'blocked' = ANY (p_states) THEN
        RETURN put_back_v1(p_ids, p_tokens, p_states, p_reasons, p_delays, p_failures, p_stuck, p_errors, p_now);
    END IF;
    SELECT array_agg(coalesce(h.state, g.state) ORDER BY g.ord),
           array_agg(CASE h.state WHEN 'scheduled' THEN 1 ELSE g.delay END ORDER BY g.ord)
      INTO v_states, v_delays
      FROM unnest(p_ids, p_states, p_delays) WITH ORDINALITY AS g (id, state, delay, ord)
      LEFT JOIN hold_waits_v1(ARRAY(
                SELECT b.id FROM unnest(p_ids, p_states) AS b (id, state) WHERE b.state = 'blocked'), p_now) AS h
        ON h.job = g.id AND g.state = 'blocked';
    UPDATE job AS j
       SET state = 'blocked', reason = g.reason, lease = NULL, token = NULL, last_token = j.token, ready_at = NULL,
           stuck_since = NULL
      FROM unnest(p_ids, p_tokens, v_states, p_reasons) AS g (id, token, state, reason)
     WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token AND g.state = 'blocked';
    GET DIAGNOSTICS v_blocked = ROW_COUNT;
    RETURN v_blocked + put_back_v1(p_ids, p_tokens, v_states, p_reasons, v_delays, p_failures, p_stuck, p_errors,
                                   p_now);
END
$$;
