-- Return the days of the history partitions that contain these jobs. Live or missing jobs have none. It returns NULL
-- instead of an empty list, for which the planner would lock every partition.
--
-- A statement on the whole history locks every partition with all its indexes until its transaction ends. With a year of
-- history and some dozens of readers, that fills the server's lock table. So this reads a few partitions at a time,
-- releases their locks by rolling back the subtransaction that took them, and stops when it has found all jobs. Callers
-- then name these days, and lock only their partitions.
--
-- The partitions that are filled today come first, because most calls are about jobs that have just ended.
CREATE FUNCTION :"schema".history_dates_v1(p_ids bigint[]) RETURNS date[]
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_left  bigint[] := ARRAY(SELECT g FROM unnest(p_ids) AS g EXCEPT SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids));
    v_days  date[];
    v_few   date[];
    v_found bigint[];
    v_on    date[];
    v_dates date[] := '{}';
BEGIN
    IF cardinality(v_left) > 0 THEN
        v_days := list_partitions_v1();
    END IF;
    FOR v_start IN 1..coalesce(cardinality(v_days), 0) BY 4 LOOP
        EXIT WHEN cardinality(v_left) = 0;
        v_few := v_days[v_start:v_start + 3];
        BEGIN
            SELECT array_agg(h.id), array_agg(DISTINCT h.expires_on) INTO v_found, v_on
              FROM job_history AS h
             WHERE (h.expires_on = ANY (v_few) OR array_position(v_few, NULL) IS NOT NULL) AND h.id = ANY (v_left);
            -- Only a subtransaction that fails releases its locks. What it found stays: variables are not rolled back.
            RAISE EXCEPTION USING ERRCODE = 'PS099';
        EXCEPTION WHEN SQLSTATE 'PS099' THEN
        END;
        IF v_found IS NOT NULL THEN
            v_dates := v_dates || v_on;
            v_left := ARRAY(SELECT l FROM unnest(v_left) AS l EXCEPT SELECT f FROM unnest(v_found) AS f);
        END IF;
    END LOOP;
    RETURN nullif(v_dates, '{}');
END
$$;
