-- Write the outcomes of attempts, each fenced by the token of its claim. Returns only what was NOT settled:
--   busy       somebody holds the row's lock: ask again;
--   cancelled  the job was ended meanwhile: no fault;
--   refused    a newer attempt owns the job, or it was rescued or deleted.
-- The repeat of a settle that did commit (its answer was lost) counts as settled.
-- An array that is NULL means the default for every job: completed, no reason, no error, no result.
CREATE FUNCTION :"schema".settle_v1(
    p_ids bigint[], p_tokens uuid[], p_states text[] DEFAULT NULL, p_reasons text[] DEFAULT NULL,
    p_delays double precision[] DEFAULT NULL, p_failures smallint[] DEFAULT NULL,
    p_stuck boolean[] DEFAULT NULL, p_errors text[] DEFAULT NULL, p_results text[] DEFAULT NULL,
    p_now timestamptz DEFAULT NULL, p_options jsonb DEFAULT NULL
) RETURNS TABLE (id bigint, token uuid, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_locked  bigint[];
    v_settled integer := 0;
BEGIN
    IF p_options ->> 'durable' = 'true' THEN
        PERFORM keep_durable_v1();
    END IF;
    -- A caller's open transaction may hold a row: the others must not wait for it.
    v_locked := ARRAY(
        SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids) FOR UPDATE SKIP LOCKED);
    IF cardinality(v_locked) = cardinality(p_ids) THEN
        v_settled := finish_v1(p_ids, p_tokens, p_states, p_reasons, p_failures, NULL,
                               p_errors, p_results, true, v_now);
    ELSIF cardinality(v_locked) > 0 THEN
        SELECT finish_v1(array_agg(g.id), array_agg(g.token), array_agg(g.state), array_agg(g.reason),
                         array_agg(g.failure), NULL, array_agg(g.error), array_agg(g.result),
                         true, v_now)
          INTO v_settled
          FROM unnest(p_ids, p_tokens, p_states, p_reasons, p_failures, p_errors, p_results)
            AS g (id, token, state, reason, failure, error, result)
         WHERE g.id = ANY (v_locked);
    END IF;
    IF v_settled < cardinality(v_locked) AND p_states IS NOT NULL THEN
        v_settled := v_settled + put_back_v1(p_ids, p_tokens, p_states, p_reasons, p_delays,
                                             p_failures, p_stuck, p_errors, v_locked, v_now);
    END IF;
    IF v_settled < cardinality(p_ids) THEN
        IF EXISTS (SELECT FROM unnest(p_states) AS s (state) WHERE s.state NOT IN (
                   'completed', 'failed', 'cancelled', 'scheduled', 'ready')) THEN
            RAISE EXCEPTION 'An attempt ends as completed, failed, cancelled, scheduled or ready, not as %.',
                p_states USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN QUERY SELECT a.id, a.token, a.answer FROM explain_unsettled_v1(p_ids, p_tokens) AS a;
    END IF;
END
$$;
