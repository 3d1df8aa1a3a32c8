-- Wake blocked jobs whose time for an event is over, and those whose event its sender could not tell them of; how
-- many at most of either.
CREATE FUNCTION :"schema".wake_waits_v1(p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_event record;
    v_waked record;
    v_jobs  bigint[];
    v_most  integer := 0;
BEGIN
    FOR v_event IN
        SELECT e.id, e.tenant, e.name FROM event AS e WHERE NOT e.told ORDER BY e.id LIMIT 100 FOR UPDATE SKIP LOCKED
    LOOP
        SELECT w.woken, w.all_told INTO v_waked
          FROM wake_waiters_v1(v_event.id, v_event.tenant, v_event.name, p_limit, true, p_now) AS w;
        IF v_waked.all_told THEN
            UPDATE event AS e SET told = true WHERE e.id = v_event.id;
        END IF;
        v_most := greatest(v_most, v_waked.woken);
    END LOOP;
    v_jobs := ARRAY(
        SELECT w.job FROM event_wait AS w WHERE w.until <= v_now AND NOT w.woken
         ORDER BY w.until LIMIT p_limit FOR UPDATE SKIP LOCKED);
    v_jobs := wake_jobs_v1(v_jobs, true, p_now);
    IF cardinality(v_jobs) > 0 THEN
        UPDATE event_wait AS w SET woken = true WHERE w.job = ANY (v_jobs) AND w.until <= v_now;
    END IF;
    RETURN greatest(v_most, cardinality(v_jobs));
END
$$;
