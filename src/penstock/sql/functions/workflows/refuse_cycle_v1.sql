-- Raise an error that names the cycle if one of these new jobs would wait for itself, through blocked jobs that were
-- made to wait for it.
CREATE FUNCTION :"schema".refuse_cycle_v1(p_new bigint[], p_children bigint[]) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_start bigint;
    v_path  bigint[];
BEGIN
    -- A new job that comes before others, but after none of these, closes no cycle. Nearly always that is enough.
    FOR v_start IN
        WITH RECURSIVE below AS (
            SELECT c.id FROM unnest(p_children) AS c (id)
             UNION
            SELECT c.child FROM below AS b, LATERAL (SELECT d.child FROM dependency AS d WHERE d.parent = b.id OFFSET 0) AS c
        )
        SELECT DISTINCT d.parent FROM dependency AS d
         WHERE d.parent = ANY (p_new) AND d.child = ANY (p_children) AND d.parent IN (SELECT b.id FROM below AS b)
    LOOP
        v_path := find_cycle_v1(v_start);
        IF v_path IS NOT NULL THEN
            RAISE EXCEPTION 'These jobs would wait for each other in a circle: %.', array_to_string(v_path, ' → ')
                USING ERRCODE = 'PS015', DETAIL = array_to_json(ARRAY(
                          SELECT p.id || coalesce(' (' || j.step || ')', '')
                            FROM unnest(v_path) WITH ORDINALITY AS p (id, ord)
                            LEFT JOIN job AS j ON j.id = p.id AND j.id = ANY (v_path) ORDER BY p.ord))::text,
                      HINT = 'Let the new job wait for less, or put it before another.';
        END IF;
    END LOOP;
END
$$;
