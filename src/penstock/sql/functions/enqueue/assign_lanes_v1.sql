-- Return the lane of each new job, and its priority including that of its tenant's plan.
-- It is called only if a setting or an option decides on them: see enqueue_v1.
--
-- A lane consists of a lane key, such as the tenant, and the keys of the limits of its jobs. So jobs that wait for a
-- limit are in lanes of their own, which a claim can skip without reading them.
CREATE FUNCTION :"schema".assign_lanes_v1(
    p_tasks text[], p_args text[], p_queues text[], p_lanes text[], p_limits text[], p_priorities smallint[],
    p_tenants text[], p_subjects text[], p_requested_bys text[], p_metas text[],
    OUT lanes text[], OUT priorities smallint[]
)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
AS $$
DECLARE
    v_tasks text[] := ARRAY(SELECT l.key FROM limit_setting AS l WHERE l.key LIKE 'task:%');
BEGIN
    WITH limited AS (
        SELECT DISTINCT t.task FROM unnest(p_tasks) AS t (task), unnest(v_tasks) AS l (key)
         WHERE 'task:' || t.task = l.key
            OR right(l.key, 1) = '*' AND starts_with('task:' || t.task, left(l.key, -1))
    )
    SELECT array_agg(CASE WHEN g.limits IS NULL AND l.task IS NULL THEN replace(left(w.turn, 200), E'\x1f', ' ')
                          ELSE lane_v1(w.turn, g.limits, 'task:' || l.task) END ORDER BY g.ord),
           array_agg(greatest(-100, least(100, coalesce(g.priority, 0) + coalesce(p.priority, 0)))::smallint
                     ORDER BY g.ord)
      INTO lanes, priorities
      FROM unnest(p_tasks, p_args, p_queues, p_lanes, p_limits, p_priorities, p_tenants, p_subjects,
                  p_requested_bys, p_metas) WITH ORDINALITY
        AS g (task, args, queue, lane, limits, priority, tenant, subject, requested_by, meta, ord)
      LEFT JOIN queue AS q ON q.name = coalesce(g.queue, 'default') AND q.fair
      LEFT JOIN tenant_setting AS t ON t.tenant = g.tenant
      LEFT JOIN plan AS p ON p.name = t.plan
      LEFT JOIN limited AS l ON l.task = g.task
     CROSS JOIN LATERAL (
           SELECT coalesce(g.lane, CASE WHEN q.fair THEN
                      lane_key_v1(q.lane_key, g.task, g.tenant, g.subject, g.requested_by, g.args, g.meta)
                  END, '') AS turn) AS w;
END
$$;
