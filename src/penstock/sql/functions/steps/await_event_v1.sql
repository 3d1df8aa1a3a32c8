-- Wait for an event. Returns one of these answers; the result of the first two is saved as a step:
--   got      the first event with the name after the last one that the job has received;
--   timeout  the timeout has passed, counted from the first wait;
--   wait     there is none yet: the wait is stored, and the attempt may end as blocked;
--   busy     somebody is sending one in an open transaction: try again.
CREATE FUNCTION :"schema".await_event_v1(
    p_job bigint, p_token uuid, p_step text, p_name text, p_after bigint, p_timeout double precision,
    p_now timestamptz DEFAULT NULL
) RETURNS TABLE (answer text, result jsonb)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_tenant text := lock_attempt_v1(p_job, p_token);
    v_until  timestamptz;
BEGIN
    PERFORM commit_durably_v1();
    IF NOT pg_try_advisory_xact_lock_shared(event_lock_key_v1(v_tenant, p_name)) THEN
        answer := 'busy';
        RETURN NEXT;
        RETURN;
    END IF;
    answer := 'got';
    SELECT jsonb_build_object('event', e.id, 'payload', e.payload) INTO result FROM event AS e
     WHERE e.tenant = v_tenant AND e.name = p_name AND e.id > p_after AND e.expires_at > v_now
     ORDER BY e.id LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO event_wait AS w (job, step, tenant, name, after_event, until)
        VALUES (p_job, p_step, v_tenant, p_name, p_after, v_now + make_interval(secs => p_timeout))
        ON CONFLICT (job, step) DO UPDATE SET woken = false
        RETURNING w.until INTO v_until;
        IF v_until <= v_now THEN
            answer := 'timeout';
            result := '{"timed_out": true}';
        ELSE
            answer := 'wait';
        END IF;
    END IF;
    IF result IS NOT NULL THEN
        PERFORM save_step_v1(p_job, p_token, 'event', p_step, result, v_now);
        DELETE FROM event_wait AS w WHERE w.job = p_job AND w.step = p_step;
    END IF;
    RETURN NEXT;
END
$$;
