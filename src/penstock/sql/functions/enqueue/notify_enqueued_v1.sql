-- Send one NOTIFY for each lane and priority that got ready jobs, and one for the earliest job that is due later.
-- For jobs in very many lanes, one NOTIFY per queue with a NULL lane is sent, and its workers scan for them.
CREATE FUNCTION :"schema".notify_enqueued_v1(
    p_queues text[], p_lanes text[], p_priorities smallint[], p_delays double precision[],
    p_run_ats timestamptz[], p_count integer, p_ready_at timestamptz, p_now timestamptz
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_count integer := p_count;
BEGIN
    IF p_queues IS NULL AND p_lanes IS NULL AND p_priorities IS NULL AND p_delays IS NULL AND p_run_ats IS NULL THEN
        v_count := 1;  -- All jobs are in one lane with one priority.
    END IF;
    WITH given AS MATERIALIZED (
        SELECT coalesce(g.queue, 'default') AS queue, coalesce(g.lane, '') AS lane,
               coalesce(g.priority, 0::smallint) AS priority,
               coalesce(g.run_at, p_now + make_interval(secs => coalesce(g.delay, 0))) AS due
          FROM unnest(p_queues, p_lanes, p_priorities, p_delays, p_run_ats,
                      array_fill(0, ARRAY[v_count]))
            AS g (queue, lane, priority, delay, run_at, pad)
    ), line AS MATERIALIZED (
        SELECT DISTINCT g.queue, g.lane, g.priority FROM given AS g WHERE g.due <= p_now
    ), told AS (
        SELECT notify_ready_v1(l.queue, l.lane, l.priority, p_ready_at)
          FROM line AS l WHERE (SELECT count(*) FROM line) <= 64
        UNION ALL
        SELECT notify_ready_v1(l.queue, NULL, max(l.priority), p_ready_at)
          FROM line AS l WHERE (SELECT count(*) FROM line) > 64 GROUP BY l.queue
        UNION ALL
        SELECT notify_due_v1(min(g.due)) FROM given AS g WHERE g.due > p_now HAVING count(*) > 0
    )
    SELECT count(*) INTO v_count FROM told;
    RETURN v_count;
END
$$;
