-- Drop the vector index of an edition, for callers who do not own the tables or have no session of their own. False while
-- another index is made, or if the chunks are in use for longer than the lock timeout: everybody who wants to use them
-- meanwhile waits behind this.
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
