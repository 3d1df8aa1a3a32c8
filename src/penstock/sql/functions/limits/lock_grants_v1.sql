-- Lock the grants of some keys until the transaction ends, always in the same order, so that no two transactions
-- wait for each other.
CREATE FUNCTION :"schema".lock_grants_v1(p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_lock bigint;
BEGIN
    FOR v_lock IN
        SELECT DISTINCT hashtextextended(current_database() || '.' || current_schema() || '.grant.' || k.key, 0)
          FROM unnest(p_keys) AS k (key) ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(v_lock);
    END LOOP;
END
$$;
