-- Drop the index of an edition's vectors, for who does not own the tables, or has no session of its own. False while
-- one is made, or if somebody uses the chunks for so long that others would wait.
CREATE FUNCTION :"schema".drop_index_v1(p_edition bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", :"vector", pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('penstock knowledge indexes', 0)) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP INDEX IF EXISTS :"schema".chunk_edition_%s', p_edition);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;
REVOKE ALL ON FUNCTION :"schema".drop_index_v1(bigint) FROM PUBLIC;
