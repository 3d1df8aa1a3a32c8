-- Wake blocked jobs whose wait has timed out, and those that the sender of an event could not wake: up to p_limit of
-- each. upto is the event to continue after, NULL at the end; so events whose jobs others have locked do not hold up later
-- events. next_in is the number of seconds until the next call; NULL if no wait has a timeout.
CREATE FUNCTION :"schema".wake_due_waits_v1(
    p_limit integer DEFAULT 1000, p_after bigint DEFAULT 0, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (woken integer, upto bigint, next_in double precision)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_left  integer := p_limit;  -- an event that wakes no job counts too
    v_held  integer := 0;
    v_most  integer;
    v_event record;
    v_waked record;
    v_jobs  bigint[];
    v_woken bigint[];
BEGIN
    woken := 0;
    FOR v_event IN
        SELECT e.id, e.tenant, e.name FROM event AS e
         WHERE NOT e.told AND e.id > p_after ORDER BY e.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        SELECT w.woken, w.all_told INTO v_waked
          FROM wake_waiters_v1(v_event.id, v_event.tenant, v_event.name, v_left, true, p_now) AS w;
        IF v_waked.all_told THEN
            UPDATE event AS e SET told = true WHERE e.id = v_event.id;
        END IF;
        woken := woken + v_waked.woken;
        v_left := v_left - v_waked.woken - 1;
        IF v_left <= 0 THEN  -- the next call reads this event again, since more jobs may wait for it
            upto := CASE WHEN v_waked.all_told OR v_waked.woken = 0 THEN v_event.id ELSE v_event.id - 1 END;
            EXIT;
        END IF;
    END LOOP;

    v_left := p_limit;
    LOOP
        v_most := v_left;
        v_jobs := ARRAY(
            SELECT w.job FROM event_wait AS w WHERE w.until <= v_now AND NOT w.woken
             ORDER BY w.until, w.job OFFSET v_held LIMIT v_most FOR UPDATE SKIP LOCKED);
        v_woken := wake_jobs_v1(v_jobs, true, p_now);
        IF cardinality(v_woken) > 0 THEN
            UPDATE event_wait AS w SET woken = true WHERE w.job = ANY (v_woken) AND w.until <= v_now;
        END IF;
        v_left := v_left - cardinality(v_woken);
        v_held := v_held + cardinality(v_jobs) - cardinality(v_woken);
        EXIT WHEN cardinality(v_jobs) < v_most OR v_left <= 0;
    END LOOP;
    woken := woken + p_limit - v_left;

    IF EXISTS (SELECT FROM event AS e WHERE NOT e.told) THEN
        next_in := 0;
    ELSE
        SELECT greatest(0, extract(epoch FROM w.until - v_now)) INTO next_in FROM event_wait AS w
         WHERE NOT w.woken AND w.until IS NOT NULL ORDER BY w.until LIMIT 1;
    END IF;
    RETURN NEXT;
END
$$;
