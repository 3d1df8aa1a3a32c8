-- Fire a schedule now, even if it is paused or an earlier job has not ended. Its ticks stay as they are.
-- Returns the job's id, or NULL if the schedule does not exist.
CREATE FUNCTION :"schema".run_schedule_v1(p_schedule text, p_by text DEFAULT NULL, p_now timestamptz DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_tick timestamptz := coalesce(p_now, clock_timestamp());
    v_job  bigint;
BEGIN
    PERFORM FROM schedule AS s WHERE s.name = p_schedule FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    LOOP
        v_job := fire_tick_v1(p_schedule, v_tick, 'manual', 1, NULL, p_now);
        EXIT WHEN v_job IS NOT NULL;
        v_tick := v_tick + interval '1 microsecond';  -- a tick has this very time
    END LOOP;
    INSERT INTO audit (actor, action, tenant, target, detail)
    SELECT coalesce(p_by, session_user), 'run_schedule', s.tenant, s.name, jsonb_build_object('job', v_job::text)
      FROM schedule AS s WHERE s.name = p_schedule;
    RETURN v_job;
END
$$;
