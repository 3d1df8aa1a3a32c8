-- Delete the results of old ticks: those older than a week, and all but the last 1,000 of each schedule. The last ten
-- jobs of each stay, because the next tick checks whether they have ended.
CREATE FUNCTION :"schema".sweep_fires_v1(p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
AS $$
DECLARE
    v_week_ago timestamptz := coalesce(p_now, statement_timestamp()) - interval '7 days';
    v_swept    integer;
BEGIN
    DELETE FROM schedule_fire AS f
     USING (SELECT o.schedule, o.tick
              FROM schedule AS s
             CROSS JOIN LATERAL (
                   SELECT greatest(v_week_ago, (SELECT n.tick FROM schedule_fire AS n WHERE n.schedule = s.name
                                                 ORDER BY n.tick DESC OFFSET 999 LIMIT 1)) AS before,
                          (SELECT n.tick FROM schedule_fire AS n WHERE n.schedule = s.name AND n.job IS NOT NULL
                            ORDER BY n.tick DESC OFFSET 9 LIMIT 1) AS tenth) AS b
             CROSS JOIN LATERAL (
                   SELECT n.schedule, n.tick FROM schedule_fire AS n
                    WHERE n.schedule = s.name AND n.tick < b.before AND (n.job IS NULL OR n.tick < b.tenth)
                    ORDER BY n.tick LIMIT p_limit) AS o
             LIMIT p_limit) AS old
     WHERE f.schedule = old.schedule AND f.tick = old.tick;
    GET DIAGNOSTICS v_swept = ROW_COUNT;
    RETURN v_swept;
END
$$;
