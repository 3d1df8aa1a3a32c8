-- Delete jobs that are not running, live or final, with everything stored about them. Returns deleted, running, missing.
-- The job's row goes last: under row level security it decides whose the other rows are.
-- A live job is cancelled first, so that its batch, its unique key and its dependents are updated as by any other end.
CREATE FUNCTION :"schema".delete_v1(p_ids bigint[], p_now timestamptz DEFAULT NULL)
RETURNS TABLE (id bigint, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    v_live  bigint[];
    v_final bigint[];
    v_dates date[];
    v_gone  bigint[];
BEGIN
    SELECT coalesce(array_agg(l.id), '{}') INTO v_live
      FROM (SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids) AND j.state <> 'running' ORDER BY j.id FOR UPDATE) AS l;
    PERFORM finish_jobs_v1(v_live, NULL, array_fill('cancelled'::text, ARRAY[cardinality(v_live)]),
                           array_fill('deleted'::text, ARRAY[cardinality(v_live)]), NULL, NULL, NULL, NULL, false,
                           coalesce(p_now, statement_timestamp()));
    v_dates := history_dates_v1(p_ids);
    SELECT coalesce(array_agg(f.id), '{}') INTO v_final
      FROM (SELECT h.id FROM job_history AS h WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) FOR UPDATE) AS f;
    v_gone := v_final;
    DELETE FROM progress AS p WHERE p.job = ANY (v_gone);
    DELETE FROM step AS s WHERE s.job = ANY (v_gone);
    DELETE FROM event_wait AS w WHERE w.job = ANY (v_gone);
    DELETE FROM dependency AS d WHERE d.child = ANY (v_gone);
    -- Jobs that wait for one of them stay blocked until somebody unblocks them.
    DELETE FROM dependency AS d
     WHERE d.parent = ANY (v_gone) AND (d.satisfied OR NOT EXISTS (SELECT FROM job AS j WHERE j.id = d.child));
    -- A unique key must not belong to a job that does not exist any more.
    DELETE FROM unique_claim AS u WHERE u.job = ANY (v_gone);
    DELETE FROM job_history AS h WHERE h.id = ANY (v_final) AND h.expires_on = ANY (v_dates);
    RETURN QUERY
    SELECT g.id, CASE WHEN g.id = ANY (v_gone) THEN 'deleted' ELSE coalesce(j.state, 'missing') END
      FROM unnest(p_ids) AS g (id) LEFT JOIN job AS j ON j.id = g.id AND j.id = ANY (p_ids);
END
$$;
