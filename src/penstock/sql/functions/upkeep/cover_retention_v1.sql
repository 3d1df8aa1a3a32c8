-- A longer retention brings its partitions in the same transaction: a settle that finds none would fail.
CREATE FUNCTION :"schema".cover_retention_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
BEGIN
    -- Waits for whoever makes partitions now, who may not have seen this row.
    PERFORM pg_advisory_xact_lock(
        hashtextextended(current_database() || '.' || current_schema() || '.partitions', 0));
    BEGIN
        PERFORM ensure_partitions_v1();
    EXCEPTION WHEN SQLSTATE 'PS018' THEN
        -- All are there but one that is detached and cannot be attached, as workers and the doctor say.
        NULL;
    END;
    RETURN NULL;
END
$$;
