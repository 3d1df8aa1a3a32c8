-- Return the settings that a worker needs: those of its queues and their lanes, all limits and all plans.
-- Of windows it returns whether they are open now, and in how many seconds that changes.
CREATE FUNCTION :"schema".read_rules_v1(p_queues text[]) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
AS $$
    SELECT jsonb_build_object(
        'version', (SELECT v.version FROM setting_version AS v),
        'queues', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'name', q.name, 'by_tenant', q.fair AND coalesce(q.lane_key, 'tenant') = 'tenant',
                       'ageing', q.ageing, 'open', q.paused_at IS NULL AND w.open, 'changes_in', w.changes_in)), '[]')
              FROM queue AS q
             CROSS JOIN LATERAL check_windows_v1(q.windows, statement_timestamp()) AS w
             WHERE q.name = ANY (p_queues)),
        'lanes', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'queue', s.queue, 'lane', s.lane, 'weight', s.weight,
                       'open', s.paused_at IS NULL AND w.open, 'changes_in', w.changes_in)), '[]')
              FROM lane_setting AS s
             CROSS JOIN LATERAL check_windows_v1(s.windows, statement_timestamp()) AS w
             WHERE s.queue = ANY (p_queues)),
        'plans', (
            SELECT coalesce(jsonb_agg(jsonb_build_object('tenant', t.tenant, 'weight', p.weight)), '[]')
              FROM tenant_setting AS t JOIN plan AS p ON p.name = t.plan
             WHERE p.weight <> 1),
        'limits', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'key', l.key, 'slots', l.slots, 'rate', l.rate, 'burst', l.burst)), '[]')
              FROM limit_setting AS l));
$$;
