-- In which partitions of the history are these jobs? Answers their days; none for a job that lives or is not there, and
-- NULL if there are none at all: with an empty list of days the planner would lock every partition.
--
-- A statement over the whole history locks every partition with all its indexes, until its transaction ends: with a
-- year of history and some dozens of readers that fills the lock table of the server. So this looks into a few
-- partitions at a time, gives their locks back by ending the subtransaction that took them, and stops when it has
-- found all. Whoever reads or changes the jobs then names these days, and locks their partitions alone.
--
-- The partitions that fill today come first: most questions are about jobs that have just ended.
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
            -- Only a subtransaction that fails gives its locks back. What it found is kept: variables do not roll back.
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
