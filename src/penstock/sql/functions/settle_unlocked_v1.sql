-- Settle those of the attempts whose rows nobody holds, when some are held; how many were settled.
CREATE FUNCTION :"schema".settle_unlocked_v1(
    p_ids bigint[], p_tokens uuid[], p_states text[], p_reasons text[], p_delays double precision[],
    p_failures smallint[], p_stuck boolean[], p_errors text[], p_results text[], p_now timestamptz
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_free    record;
    v_settled integer;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT j.id FROM job AS j WHERE j.id = ANY (p_ids) FOR UPDATE SKIP LOCKED
    )
    SELECT array_agg(g.id) AS ids, array_agg(g.token) AS tokens, array_agg(g.state) AS states,
           array_agg(g.reason) AS reasons, array_agg(g.delay) AS delays,
           array_agg(g.failure) AS failures, array_agg(g.stuck) AS stuck,
           array_agg(g.error) AS errors, array_agg(g.result) AS results
      INTO v_free
      FROM unnest(p_ids, p_tokens, p_states, p_reasons, p_delays, p_failures, p_stuck, p_errors, p_results)
        AS g (id, token, state, reason, delay, failure, stuck, error, result)
     WHERE g.id IN (SELECT f.id FROM free AS f);
    IF v_free.ids IS NULL THEN
        RETURN 0;
    END IF;
    v_settled := finish_v1(v_free.ids, v_free.tokens, v_free.states, v_free.reasons, v_free.failures,
                           NULL, v_free.errors, v_free.results, true, p_now);
    RETURN v_settled + put_back_v1(v_free.ids, v_free.tokens, v_free.states, v_free.reasons, v_free.delays,
                                   v_free.failures, v_free.stuck, v_free.errors, p_now);
END
$$;
