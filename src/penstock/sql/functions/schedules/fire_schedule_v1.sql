-- Fire what is due for one schedule: its start, its missed ticks, its ticks. Returns 'busy' if the schedule has changed
-- since its ticks were computed, or if another leader has locked it. Ticks that are done or in the future do not fire.
CREATE FUNCTION :"schema".fire_schedule_v1(
    p_schedule text, p_version bigint, p_start timestamptz, p_missed timestamptz, p_missed_ticks integer,
    p_ticks timestamptz[], p_next_at timestamptz, p_now timestamptz
) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_tick timestamptz;
    v      record;
BEGIN
    SELECT s.done_until, s.started_at, s.catch_up INTO v FROM schedule AS s
     WHERE s.name = p_schedule AND s.version = p_version AND s.paused_at IS NULL
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 'busy';
    END IF;
    IF p_start IS DISTINCT FROM v.started_at AND p_start <= v_now THEN
        PERFORM fire_tick_v1(p_schedule, p_start, 'start', 1, NULL, p_now);
        v.started_at := p_start;
    END IF;
    IF p_missed > v.done_until AND p_missed <= v_now THEN
        PERFORM fire_tick_v1(p_schedule, p_missed, 'tick', p_missed_ticks,
                             CASE v.catch_up WHEN 'skip' THEN 'missed' END, p_now);
        v.done_until := p_missed;
    END IF;
    FOREACH v_tick IN ARRAY p_ticks LOOP
        IF v_tick > v.done_until AND v_tick <= v_now THEN
            PERFORM fire_tick_v1(p_schedule, v_tick, 'tick', 1, NULL, p_now);
            v.done_until := v_tick;
        END IF;
    END LOOP;
    UPDATE schedule AS s
       SET done_until = v.done_until, started_at = v.started_at, next_at = p_next_at
     WHERE s.name = p_schedule;
    RETURN 'fired';
END
$$;
