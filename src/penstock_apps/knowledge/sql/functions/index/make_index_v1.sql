-- Make the vector index of an edition, for callers who do not own the tables or have no session of their own. Whoever
-- writes chunks waits meanwhile. An index that was not finished must be dropped first, in a transaction of its own, as
-- searches would have to wait for this one, too. False while another index is made: the two would deadlock.
CREATE FUNCTION :"schema".make_index_v1(p_edition bigint, p_memory text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", :"vector", pg_temp
AS $$
DECLARE
    v_described text := describe_index_v1(p_edition, 'IF NOT EXISTS');
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('penstock knowledge indexes', 0)) THEN
        RETURN false;
    END IF;
    IF v_described IS NULL THEN
        RETURN true;
    END IF;
    PERFORM set_config('maintenance_work_mem', p_memory, true);
    BEGIN
        EXECUTE v_described;
    EXCEPTION WHEN disk_full THEN
        -- Of the memory that processes share: containers may have little.
        PERFORM set_config('max_parallel_maintenance_workers', '0', true);
        EXECUTE v_described;
    END;
    RETURN true;
END
$$;
REVOKE ALL ON FUNCTION :"schema".make_index_v1(bigint, text) FROM PUBLIC;
