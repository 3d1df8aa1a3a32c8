-- Remove cached results that have expired, then the least recently used ones until the rest fits its size. Returns how
-- many were removed, and by how many bytes the cache is still too big. A caller that knows this number passes it as
-- p_excess (0 if it fits), since computing it adds up the sizes of all results.
CREATE FUNCTION :"schema".sweep_cache_v1(
    p_bytes bigint, p_limit integer DEFAULT 1000, p_now timestamptz DEFAULT NULL, p_excess bigint DEFAULT NULL
) RETURNS TABLE (expired integer, evicted integer, excess bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_freed bigint;
BEGIN
    DELETE FROM step_cache AS c
     WHERE c.ctid = ANY (ARRAY(
           SELECT o.ctid FROM step_cache AS o
            WHERE o.expires_at <= v_now ORDER BY o.expires_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS expired = ROW_COUNT;
    excess := coalesce(p_excess, (SELECT greatest(0, coalesce(sum(c.size), 0) - p_bytes) FROM step_cache AS c));
    evicted := 0;
    IF excess > 0 THEN
        WITH gone AS (
            DELETE FROM step_cache AS c
             WHERE c.ctid = ANY (ARRAY(
                   SELECT f.place
                     FROM (SELECT o.place, o.size, sum(o.size) OVER (ORDER BY o.used_at, o.place) AS freed
                             FROM (SELECT l.ctid AS place, l.size, l.used_at FROM step_cache AS l
                                    ORDER BY l.used_at LIMIT p_limit FOR UPDATE SKIP LOCKED) AS o) AS f
                    WHERE f.freed - f.size < excess))
            RETURNING c.size
        )
        SELECT count(*), coalesce(sum(g.size), 0) INTO evicted, v_freed FROM gone AS g;
        excess := greatest(0, excess - v_freed);
    END IF;
    RETURN NEXT;
END
$$;
