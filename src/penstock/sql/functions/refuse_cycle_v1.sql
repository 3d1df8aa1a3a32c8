-- Raise an error that names the cycle, if one of these new jobs would wait for itself through waiting jobs that were
-- made to wait for it.
CREATE FUNCTION :"schema".refuse_cycle_v1(p_new bigint[], p_children bigint[]) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
AS $$
DECLARE
    v_start bigint;
    v_path  bigint[];
BEGIN
    FOR v_start IN
        SELECT DISTINCT d.parent FROM dependency AS d
         WHERE d.parent = ANY (p_new) AND d.child = ANY (p_children)
           AND EXISTS (SELECT FROM dependency AS u WHERE u.child = d.parent)
    LOOP
        WITH RECURSIVE below AS (
            SELECT v_start AS id
             UNION
            SELECT d.child FROM below AS b JOIN dependency AS d ON d.parent = b.id
        ), up AS (
            -- Only through what is below: every way up from the start leads round, if there is one.
            SELECT d.parent AS id, ARRAY[d.parent, v_start] AS path
              FROM dependency AS d WHERE d.child = v_start AND d.parent IN (SELECT b.id FROM below AS b)
             UNION ALL
            SELECT d.parent, d.parent || u.path
              FROM up AS u JOIN dependency AS d ON d.child = u.id
             WHERE u.id <> v_start AND d.parent IN (SELECT b.id FROM below AS b)
        )
        SELECT u.path INTO v_path FROM up AS u WHERE u.id = v_start LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'These jobs would wait for each other in a circle: %.', array_to_string(v_path, ' → ')
                USING ERRCODE = 'PS015', DETAIL = array_to_json(v_path::text[])::text,
                      HINT = 'Let the new job wait for less, or put it before another.';
        END IF;
    END LOOP;
END
$$;
