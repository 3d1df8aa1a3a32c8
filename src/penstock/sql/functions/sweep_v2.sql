-- Remove what nobody needs any more, as in sweep_v1, and buckets that say nothing: full and open for an hour, as
-- one that is made anew would be, or without a rate.
CREATE FUNCTION :"schema".sweep_v2(p_limit integer DEFAULT 5000, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (leases integer, keys integer, progress integer, buckets integer)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_hour_ago timestamptz := coalesce(p_now, statement_timestamp()) - interval '1 hour';
BEGIN
    SELECT s.leases, s.keys, s.progress INTO leases, keys, progress FROM sweep_v1(p_limit, p_now) AS s;
    DELETE FROM bucket AS b
     WHERE b.key IN (
           SELECT o.key FROM bucket AS o CROSS JOIN LATERAL limit_v1(o.key) AS l
            WHERE o.filled_at < v_hour_ago AND (o.closed_until < v_hour_ago) IS NOT FALSE
              AND (o.level + l.rate * extract(epoch FROM v_hour_ago - o.filled_at) >= l.burst) IS NOT FALSE
            LIMIT p_limit FOR UPDATE OF o SKIP LOCKED);
    GET DIAGNOSTICS buckets = ROW_COUNT;
    RETURN NEXT;
END
$$;
