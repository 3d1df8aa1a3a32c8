-- Create the partitions of a longer retention in the same transaction: without them, settling would fail.
CREATE FUNCTION :"schema".cover_retention_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
BEGIN
    -- Wait for those who create partitions now, since they may not have seen this row.
    PERFORM pg_advisory_xact_lock(
        hashtextextended(current_database() || '.' || current_schema() || '.partitions', 0));
    BEGIN
        PERFORM ensure_partitions_v1();
    EXCEPTION WHEN SQLSTATE 'PS018' THEN
        -- All exist except one that is detached and cannot be attached. Workers and the doctor report it.
        NULL;
    END;
    RETURN NULL;
END
$$;
