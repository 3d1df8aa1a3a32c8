-- Remove what nobody needs any more: dead leases and what hung on them, old keys, progress of ended jobs.
CREATE FUNCTION :"schema".sweep_v1(p_limit integer DEFAULT 5000, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (leases integer, keys integer, progress integer)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_dead bigint[];
    -- Before that its job may well be in history: to ask for each would be to walk through all of it.
    v_gone timestamptz := v_now - make_interval(
        days => 33 + greatest(30, (SELECT max(r.days) FROM retention AS r)));
BEGIN
    -- Kept for a while after the rescue: errors name the worker by it, and people look at it.
    v_dead := ARRAY(
        SELECT l.id FROM lease AS l
         WHERE l.expires_at < v_now - interval '1 hour'
           AND NOT EXISTS (SELECT FROM job AS j WHERE j.state = 'running' AND j.lease = l.id)
         LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM lease AS l WHERE l.id = ANY (v_dead);
    GET DIAGNOSTICS leases = ROW_COUNT;
    DELETE FROM signal AS s WHERE NOT EXISTS (SELECT FROM lease AS l WHERE l.id = s.lease);
    DELETE FROM "grant" AS g WHERE NOT EXISTS (SELECT FROM lease AS l WHERE l.id = g.lease);
    DELETE FROM unique_claim AS u
     WHERE (u.kind, u.tenant, u.key) IN (
           SELECT o.kind, o.tenant, o.key FROM unique_claim AS o
            WHERE o.expires_at <= v_now ORDER BY o.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS keys = ROW_COUNT;
    DELETE FROM progress AS p
     WHERE p.job IN (
           SELECT o.job FROM progress AS o
            WHERE o.updated_at < v_gone
              AND NOT EXISTS (SELECT FROM job_all AS j WHERE j.id = o.job)
            LIMIT p_limit FOR UPDATE OF o SKIP LOCKED);
    GET DIAGNOSTICS progress = ROW_COUNT;
    RETURN NEXT;
END
$$;
