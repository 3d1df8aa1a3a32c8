-- Make the index of an edition's vectors, for who does not own the tables, or has no session of its own; whoever writes
-- chunks waits meanwhile. One that broke off must be dropped first, in a transaction of its own: searches would wait,
-- too. False while another is made: two would wait for each other.
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
