-- Return the ids of jobs by filter, a page at a time, for bulk changes: first live jobs, then final ones. Each row is a
-- cursor: the next page begins after the last row. Jobs that end after the first page began are on no page: that time,
-- p_until, is in each row.
--
-- The history is read one partition after the other, from the end of the previous page on. Failed jobs, and those of a
-- batch, a workflow or a subject, are found by index; for others, each partition is read once. Without the setting
-- enable_sort, a partition without statistics would be sorted as a whole for each page.
CREATE FUNCTION :"schema".match_jobs_v1(
    p_states text[], p_queue text, p_task text, p_tenant text, p_subject text, p_tag text, p_batch bigint,
    p_workflow bigint, p_above bigint, p_below bigint, p_until timestamptz, p_day date, p_at timestamptz, p_id bigint,
    p_limit integer
) RETURNS TABLE (id bigint, day date, at timestamptz, until timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
DECLARE
    v_until  timestamptz := least(p_until, statement_timestamp());
    -- With the bare column id the planner would walk the primary key, past all other jobs. The index of batches is in the
    -- order of ids; a range that covers one batch keeps the planner on it.
    v_id     text := CASE WHEN p_batch IS NULL AND (p_workflow IS NOT NULL OR p_subject IS NOT NULL)
                          THEN 'j.id + 0' ELSE 'j.id' END;
    v_below  text := CASE WHEN p_batch IS NULL THEN v_id || ' < ' ELSE 'j.batch >= $7 AND (j.batch, j.id) < ($7, ' END;
    v_end    text := CASE WHEN p_batch IS NULL THEN '' ELSE ')' END;
    v_order  text := CASE WHEN p_batch IS NULL THEN '' ELSE 'j.batch DESC, ' END || v_id || ' DESC';
    v_filter text := '
           AND ($1 IS NULL OR j.state = ANY ($1)) AND ($2 IS NULL OR j.queue = $2) AND ($3 IS NULL OR j.task = $3)
           AND ($4 IS NULL OR j.tenant = $4) AND ($5 IS NULL OR j.subject = $5) AND ($6 IS NULL OR $6 = ANY (j.tags))
           AND ($8 IS NULL OR j.workflow = $8) AND ' || v_id || ' > $9 AND ' || v_below || '$10' || v_end;
    v_first  bigint := coalesce(p_above, -9223372036854775808);
    v_last   bigint := coalesce(p_below, 9223372036854775807);
    v_days   date[];
    v_day    date;
    v_left   integer := p_limit;
    v_found  integer;
BEGIN
    IF p_day IS NULL AND (p_states IS NULL OR p_states && ARRAY['scheduled', 'ready', 'running', 'blocked']) THEN
        RETURN QUERY EXECUTE format(
            'SELECT j.id, NULL::date, NULL::timestamptz, $11 FROM job AS j WHERE true %s ORDER BY %s LIMIT $12', v_filter, v_order)
            USING p_states, p_queue, p_task, p_tenant, p_subject, p_tag, p_batch, p_workflow, v_first,
                  least(v_last, p_id), v_until, v_left;
        GET DIAGNOSTICS v_found = ROW_COUNT;
        v_left := v_left - v_found;
    END IF;
    IF v_left = 0 OR NOT p_states && ARRAY['completed', 'failed', 'cancelled'] THEN
        RETURN;
    END IF;
    -- A partition that somebody created by hand has no day. It comes last.
    v_days := ARRAY(SELECT coalesce(d, '-infinity') FROM unnest(list_partitions_v1()) AS d);
    FOR v_day IN SELECT d FROM unnest(v_days) AS d WHERE p_day IS NULL OR d <= p_day ORDER BY d DESC LOOP
        RETURN QUERY EXECUTE format(
            'SELECT j.id, $13, j.finished_at, $11 FROM job_history AS j WHERE %s AND j.finished_at < $11 %s %s LIMIT $12',
            CASE v_day WHEN '-infinity' THEN 'j.expires_on <> ALL ($16)' ELSE 'j.expires_on = $13' END, v_filter,
            CASE WHEN p_states = ARRAY['failed'] AND v_order = 'j.id DESC'
                 THEN $q$AND j.state = 'failed' AND (j.finished_at, j.id) < ($14, $15) ORDER BY j.finished_at DESC, j.id DESC$q$
                 ELSE 'AND ' || v_below || '$15' || v_end || ' ORDER BY ' || v_order END)
            USING p_states, p_queue, p_task, p_tenant, p_subject, p_tag, p_batch, p_workflow, v_first, v_last, v_until, v_left,
                  v_day, CASE WHEN v_day = p_day THEN p_at ELSE 'infinity' END,
                  CASE WHEN v_day = p_day THEN p_id ELSE 9223372036854775807 END, v_days;
        GET DIAGNOSTICS v_found = ROW_COUNT;
        v_left := v_left - v_found;
        EXIT WHEN v_left = 0;
    END LOOP;
END
$$;
