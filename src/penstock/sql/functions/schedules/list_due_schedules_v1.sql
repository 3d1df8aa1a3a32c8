-- Return the schedules that are due, with all fields from which their ticks are computed, and in how many seconds the
-- next one is due. A schedule from code is not due while no running worker declares it. p_except are left out.
CREATE FUNCTION :"schema".list_due_schedules_v1(
    p_limit integer DEFAULT 100, p_except text[] DEFAULT '{}', p_now timestamptz DEFAULT NULL
) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET timezone = 'UTC'
SET jit = off
AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_term timestamptz := (SELECT r.elected_at FROM leader AS r WHERE r.role = 'orchestration');
BEGIN
    RETURN (
        WITH known AS MATERIALIZED (
            SELECT DISTINCT n.name
              FROM lease AS l CROSS JOIN LATERAL jsonb_array_elements_text(l.info -> 'schedules') AS n (name)
             WHERE l.expires_at > v_now AND jsonb_typeof(l.info -> 'schedules') = 'array'
        ), active AS MATERIALIZED (
            SELECT s.name, s.next_at, coalesce(s.next_at <= v_now, true) AS is_due,
                   coalesce(s.on_start AND s.started_at IS DISTINCT FROM v_term AND v_term <= v_now, false) AS starts
              FROM schedule AS s
             WHERE s.paused_at IS NULL AND s.name <> ALL (p_except)
               AND (s.declared IS NULL OR s.name IN (SELECT k.name FROM known AS k))
        ), due AS (
            SELECT s.name, s.version, s.cron, s.every, s.timezone, s.anchor, s.done_until, s.catch_up,
                   CASE WHEN a.starts THEN v_term END AS start
              FROM active AS a JOIN schedule AS s ON s.name = a.name
             WHERE a.is_due OR a.starts
             ORDER BY a.next_at NULLS FIRST LIMIT p_limit
        )
        SELECT jsonb_build_object(
                   'now', v_now,
                   'due', coalesce((SELECT jsonb_agg(to_jsonb(d)) FROM due AS d), '[]'),
                   'next_in', (SELECT extract(epoch FROM min(a.next_at) - v_now) FROM active AS a
                                WHERE NOT a.is_due AND NOT a.starts)));
END
$$;
