-- Return how many seconds after it was due a job counts as late, and for how many it has been late; NULL if it is not.
-- The lane's own setting comes first, then those of the tenant, its plan and the queue. There is no `SET search_path`,
-- but qualified names: so the planner inlines the function, and it can be used for thousands of jobs.
CREATE FUNCTION :"schema".lateness_v1(
    p_queue text, p_lane text, p_tenant text, p_run_at timestamptz, p_now timestamptz
) RETURNS TABLE (late_after double precision, late double precision)
LANGUAGE sql STABLE ROWS 1
AS $$
    SELECT s.seconds,
           CASE WHEN p_now > p_run_at + make_interval(secs => s.seconds)
                THEN extract(epoch FROM p_now - p_run_at)::double precision - s.seconds END
      FROM (SELECT CASE WHEN EXISTS (SELECT FROM :"schema".queue AS q WHERE q.late_after IS NOT NULL)
                          OR EXISTS (SELECT FROM :"schema".lane_setting AS l WHERE l.late_after IS NOT NULL)
                          OR EXISTS (SELECT FROM :"schema".tenant_setting AS t WHERE t.late_after IS NOT NULL)
                          OR EXISTS (SELECT FROM :"schema".plan AS p WHERE p.late_after IS NOT NULL)
                   THEN coalesce(
                        (SELECT l.late_after FROM :"schema".lane_setting AS l
                          WHERE l.queue = p_queue AND l.lane = split_part(p_lane, E'\x1f', 1)),
                        (SELECT coalesce(t.late_after, p.late_after)
                           FROM :"schema".tenant_setting AS t LEFT JOIN :"schema".plan AS p ON p.name = t.plan
                          WHERE t.tenant = p_tenant),
                        (SELECT q.late_after FROM :"schema".queue AS q WHERE q.name = p_queue)) END AS seconds
             OFFSET 0) AS s;
$$;
