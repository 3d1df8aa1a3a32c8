-- Take attempts from workers that are lost or cannot end them. Their jobs become ready again, or fail at the limit of
-- losses. The reason is worker_lost, or unwritten if the attempt ended and its outcome could not be written.
--
-- A loss is counted only if the attempt is known to have started: its worker recorded it (mark_started_v1), or the
-- caller knows (p_has_begun). Other attempts may have waited in the worker's prefetch buffer, as most of its jobs do, so
-- they cost their job nothing. In either case the job is a suspect from now on, and the start of its next attempts is
-- recorded. Of uncounted losses only the last ten errors are kept, so that endless kills do not make the job grow.
-- A job that can neither fail nor become ready, for example because a trigger refuses it, stays as it is: the set of
-- jobs is halved until it is alone, and the others go on. If the history lacks a partition, `lost` is NULL, and the
-- caller can create it.
CREATE FUNCTION :"schema".mark_worker_lost_v1(
    p_ids bigint[], p_tokens uuid[], p_kind text, p_type text, p_message text, p_has_begun boolean, p_now timestamptz
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
    v_errors jsonb;
    v_ids    bigint[] := '{}';
    v_lost   boolean[] := '{}';
    v_middle integer := cardinality(p_ids) / 2;
    v_table  text;
    v_check  text;
BEGIN
    FOR v_job IN
        SELECT j.id, j.token, j.queue, j.lane, j.priority, j.losses, j.max_losses,
               coalesce(j.errors, '[]') AS errors, p_has_begun OR (j.begun_token = j.token) IS TRUE AS counts,
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
        lost := v_job.counts AND v_job.losses + 1 >= v_job.max_losses;
        IF lost THEN
            PERFORM finish_jobs_v1(ARRAY[v_job.id], ARRAY[v_job.token], ARRAY['failed'], ARRAY[v_reason],
                                   NULL, ARRAY[1::smallint], ARRAY[v_job.error::text], NULL, false, p_now);
        ELSE
            IF NOT v_job.counts THEN
                v_job.error := v_job.error || jsonb_build_object('message',
                    p_message || ' No loss is counted: nobody knows whether it had begun.');
                SELECT v_job.errors - (min(e.ord) - 1)::integer INTO v_errors
                  FROM jsonb_array_elements(v_job.errors) WITH ORDINALITY AS e (error, ord)
                 WHERE e.error ->> 'type' = p_type
                HAVING count(*) >= 10;
                v_job.errors := coalesce(v_errors, v_job.errors);
            END IF;
            UPDATE job AS j
               SET state = 'ready', lease = NULL, token = NULL, suspect = true,
                   losses = j.losses + CASE WHEN v_job.counts THEN 1 ELSE 0 END,
                   reason = v_reason, errors = v_job.errors || (v_job.error
                       || jsonb_build_object('at', p_now, 'began', j.attempted_at)),
                   ready_at = clock_timestamp()
             WHERE j.id = v_job.id AND j.token = v_job.token;
            PERFORM notify_ready_v1(v_job.queue, v_job.lane, v_job.priority, statement_timestamp());
        END IF;
        v_ids := v_ids || v_job.id;
        v_lost := v_lost || lost;
    END LOOP;
    RETURN QUERY SELECT t.id, t.lost FROM unnest(v_ids, v_lost) AS t (id, lost);
EXCEPTION WHEN OTHERS THEN
    -- Errors that concern every statement, and transient ones, are for the caller.
    IF left(SQLSTATE, 2) IN ('25', '40', '53', '55', '57', '58') THEN
        RAISE;
    END IF;
    IF v_middle = 0 THEN
        RAISE WARNING 'Job % of a lost worker can be neither made ready nor failed: %', p_ids[1], SQLERRM;
        GET STACKED DIAGNOSTICS v_table = TABLE_NAME, v_check = CONSTRAINT_NAME;
        IF SQLSTATE = '23514' AND v_table = 'job_history' AND v_check = '' THEN
            RETURN QUERY SELECT p_ids[1], NULL::boolean;
        END IF;
        RETURN;
    END IF;
    RETURN QUERY SELECT l.id, l.lost FROM mark_worker_lost_v1(p_ids[:v_middle], p_tokens[:v_middle],
        p_kind, p_type, p_message, p_has_begun, p_now) AS l;
    RETURN QUERY SELECT l.id, l.lost FROM mark_worker_lost_v1(p_ids[v_middle + 1:], p_tokens[v_middle + 1:],
        p_kind, p_type, p_message, p_has_begun, p_now) AS l;
END
$$;
