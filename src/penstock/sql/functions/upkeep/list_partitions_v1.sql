-- Return the days of the history's partitions: first those for jobs that end today, then the others in order. NULL stands
-- for a partition without a day, which somebody created by hand for more than one day.
CREATE FUNCTION :"schema".list_partitions_v1() RETURNS date[]
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_nestloop = on
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_today date := (statement_timestamp() AT TIME ZONE 'UTC')::date;
    v_first date[] := ARRAY(
        SELECT expires_on_v1(v_today, k.days)
          FROM (SELECT 7 AS days UNION SELECT 30 UNION SELECT r.days FROM retention AS r) AS k);
BEGIN
    RETURN ARRAY(
        SELECT p.day
          FROM (SELECT CASE WHEN c.relname ~ '^job_history_[0-9]{8}$' THEN to_date(right(c.relname, 8), 'YYYYMMDD') END AS day
                  FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'job_history'::regclass) AS p
         ORDER BY p.day <> ALL (v_first), p.day);
END
$$;
