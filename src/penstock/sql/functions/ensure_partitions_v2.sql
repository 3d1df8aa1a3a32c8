-- Build and attach the history partitions that settles will need in the next p_ahead days. Where row level security is on it holds for each of them too, for whoever comes past the
-- parent: also for one that was made meanwhile without it, by an older worker or a longer retention.
CREATE FUNCTION :"schema".ensure_partitions_v2(
    p_ahead integer DEFAULT 7, p_now timestamptz DEFAULT NULL, p_also date[] DEFAULT '{}'
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_made      integer := ensure_partitions_v1(p_ahead, p_now, p_also);
    v_partition regclass;
BEGIN
    FOR v_partition IN
        SELECT i.inhrelid
          FROM pg_class AS h
          JOIN pg_inherits AS i ON i.inhparent = h.oid
          JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE h.oid = 'job_history'::regclass AND h.relrowsecurity AND NOT c.relrowsecurity
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', v_partition);
    END LOOP;
    RETURN v_made;
END
$$;
