-- Fire one tick of a locked schedule: enqueue its job, or record why there is none. Returns the job's id.
-- The jitter is derived from the name and the tick, so that every caller computes the same.
CREATE FUNCTION :"schema".fire_tick_v1(
    p_schedule text, p_tick timestamptz, p_kind text, p_ticks integer, p_why text, p_now timestamptz
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
    v     record;
    v_job bigint;
    v_why text := p_why;
    v_due timestamptz;
BEGIN
    IF EXISTS (SELECT FROM schedule_fire AS f WHERE f.schedule = p_schedule AND f.tick = p_tick) THEN
        RETURN NULL;
    END IF;
    SELECT s.request, s.tenant, s.jitter, s.overlap INTO v FROM schedule AS s WHERE s.name = p_schedule;
    IF v_why IS NULL AND p_kind <> 'manual' THEN
        v_why := schedule_overlap_v1(p_schedule, v.overlap);
    END IF;
    IF v_why IS NULL THEN
        IF p_kind = 'tick' THEN
            v_due := p_tick + make_interval(secs => v.jitter
                * (hashtextextended(p_schedule || extract(epoch FROM p_tick), 0) & 2147483647) / 2147483648.0);
        END IF;
        v_job := enqueue_stored_v1(
            v.request, v.tenant, jsonb_build_object('schedule', p_schedule, 'tick', p_tick), v_due, p_now);
    END IF;
    INSERT INTO schedule_fire (schedule, tick, kind, ticks, job, why, fired_at)
    VALUES (p_schedule, p_tick, p_kind, p_ticks, v_job, v_why, coalesce(p_now, clock_timestamp()));
    RETURN v_job;
END
$$;
