-- Write the outcomes of attempts, each fenced by the token of its claim. Returns only what was NOT settled:
--   busy       somebody has locked the row: try again;
--   cancelled  the job was ended meanwhile, which is no error;
--   refused    a newer attempt owns the job, or it was rescued or deleted.
-- Repeating a settle that has committed, but whose answer was lost, counts as settled.
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
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET lock_timeout = '50ms'
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_settled integer := 0;
BEGIN
    IF p_options ->> 'durable' = 'true' THEN
        PERFORM commit_durably_v1();
    END IF;
    BEGIN
        -- Nearly always nobody has locked one of the rows: write at once. lock_timeout raises an error if not.
        v_settled := finish_jobs_v1(p_ids, p_tokens, p_states, p_reasons, p_failures, NULL,
                                    p_errors, p_results, true, v_now);
        IF v_settled < cardinality(p_ids) AND p_states IS NOT NULL THEN
            v_settled := v_settled + reschedule_v1(p_ids, p_tokens, p_states, p_reasons, p_delays,
                                                   p_failures, p_stuck, p_errors, v_now);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        -- An open transaction of a caller has locked a row: the other jobs must not wait for it.
        v_settled := settle_unlocked_v1(p_ids, p_tokens, p_states, p_reasons, p_delays, p_failures,
                                        p_stuck, p_errors, p_results, v_now);
    END;
    IF v_settled < cardinality(p_ids) THEN
        IF EXISTS (SELECT FROM unnest(p_states) AS s (state) WHERE s.state NOT IN (
                   'completed', 'failed', 'cancelled', 'scheduled', 'ready', 'blocked')) THEN
            RAISE EXCEPTION 'An attempt ends as completed, failed, cancelled, scheduled, ready or blocked, not as %.',
                p_states USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN QUERY SELECT a.id, a.token, a.answer FROM explain_unsettled_v1(p_ids, p_tokens) AS a;
    END IF;
END
$$;
