-- Fold changes into the tallies, and return how many. Changes that another session folds now are left to it.
CREATE FUNCTION :"schema".fold_tallies_v1(p_most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_folded integer;
BEGIN
    WITH taken AS MATERIALIZED (
        DELETE FROM tally_change
         WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM tally_change AS c LIMIT p_most FOR UPDATE SKIP LOCKED))
        RETURNING tenant, base, source, state, number
    ), folded AS (
        INSERT INTO tally AS t (tenant, base, source, state, number)
        SELECT tenant, base, source, state, sum(number) FROM taken GROUP BY 1, 2, 3, 4 ORDER BY 3, 4
        ON CONFLICT (source, state) DO UPDATE SET number = t.number + excluded.number
    )
    SELECT count(*) INTO v_folded FROM taken;
    RETURN v_folded;
END
$$;
