-- Open a closed key before its time, for operators. Callers that were told to wait may come back now. Returns whether
-- it was closed.
CREATE FUNCTION :"schema".open_bucket_v1(p_key text, p_now timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
BEGIN
    UPDATE bucket AS b SET closed_until = NULL, booked = NULL
     WHERE b.key = p_key AND b.closed_until > coalesce(p_now, clock_timestamp());
    IF FOUND THEN
        PERFORM pg_notify(current_schema() || '.buckets', json_build_array(p_key, 0)::text);
    END IF;
    RETURN FOUND;
END
$$;
