-- Return the shortest path from a job through its dependents back to itself; NULL if there is none.
-- The search goes level by level and visits each job once: following each path would take forever if many lead to the
-- same job.
CREATE FUNCTION :"schema".find_cycle_v1(p_start bigint) RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_seen  bigint[] := '{}';
    v_from  bigint[] := '{}';
    v_level bigint[] := ARRAY[p_start];
    v_before bigint[];
    v_path  bigint[] := ARRAY[p_start];
BEGIN
    WHILE cardinality(v_level) > 0 AND NOT p_start = ANY (v_seen) LOOP
        SELECT coalesce(array_agg(n.child), '{}'), coalesce(array_agg(n.parent), '{}') INTO v_level, v_before
          FROM (SELECT DISTINCT ON (d.child) d.child, d.parent FROM dependency AS d
                 WHERE d.parent = ANY (v_level) AND d.child <> ALL (v_seen) ORDER BY d.child, d.parent) AS n;
        v_seen := v_seen || v_level;
        v_from := v_from || v_before;
    END LOOP;
    IF NOT p_start = ANY (v_seen) THEN
        RETURN NULL;
    END IF;
    LOOP
        v_path := v_from[array_position(v_seen, v_path[1])] || v_path;
        EXIT WHEN v_path[1] = p_start;
    END LOOP;
    RETURN v_path;
END
$$;
