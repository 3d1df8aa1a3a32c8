-- Count a loss for attempts that were taken back: ready again, or failed at the limit. The reason is
-- worker_lost, or unwritten if the attempt ended and its outcome could not be written.
CREATE FUNCTION :"schema".lose_v1(
    p_ids bigint[], p_tokens uuid[], p_kind text, p_type text, p_message text, p_now timestamptz
) RETURNS TABLE (id bigint, lost boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_job    record;
    v_reason text := CASE p_kind WHEN 'unwritten' THEN 'unwritten' ELSE 'worker_lost' END;
BEGIN
    FOR v_job IN
        SELECT j.id, j.token, j.queue, j.lane, j.priority, j.losses + 1 >= j.max_losses AS over,
               jsonb_build_object(
                   'attempt', j.attempt, 'kind', p_kind, 'type', p_type,
                   'worker', coalesce((SELECT l.worker FROM lease AS l WHERE l.id = j.lease),
                                      'lease ' || j.lease),
                   'message', p_message, 'traceback', '') AS error
          FROM unnest(p_ids, p_tokens) AS g (id, token)
          JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
         ORDER BY j.id
           FOR UPDATE OF j SKIP LOCKED
    LOOP
        IF v_job.over THEN
            PERFORM finish_v1(ARRAY[v_job.id], ARRAY[v_job.token], ARRAY['failed'], ARRAY[v_reason],
                              NULL, ARRAY[1::smallint], ARRAY[v_job.error::text], NULL, false, p_now);
        ELSE
            UPDATE job AS j
               SET state = 'ready', lease = NULL, token = NULL, losses = j.losses + 1,
                   reason = v_reason, errors = coalesce(j.errors, '[]') || (v_job.error
                       || jsonb_build_object('at', p_now, 'began', j.attempted_at)),
                   ready_at = clock_timestamp()
             WHERE j.id = v_job.id AND j.token = v_job.token;
            PERFORM notify_ready_v1(v_job.queue, v_job.lane, v_job.priority, statement_timestamp());
        END IF;
        id := v_job.id;
        lost := v_job.over;
        RETURN NEXT;
    END LOOP;
END
$$;
