-- Settle those attempts that are not blocked by locks, while others are. Returns how many were settled.
-- An attempt is blocked if somebody has locked the row of its job, of its unique key, of a job that waits for it, or of
-- one that would be cancelled with it.
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
    WITH RECURSIVE own AS MATERIALIZED (
        SELECT j.id, j.has_children, j.unique_key IS NOT NULL AS has_key
          FROM job AS j WHERE j.id = ANY (p_ids) FOR UPDATE SKIP LOCKED
    ), key AS MATERIALIZED (
        SELECT u.job FROM unique_claim AS u
         WHERE u.job = ANY (ARRAY(SELECT o.id FROM own AS o WHERE o.has_key)) AND u.kind = 'unique'
    ), free_key AS MATERIALIZED (
        SELECT u.job FROM unique_claim AS u
         WHERE u.job = ANY (ARRAY(SELECT k.job FROM key AS k)) AND u.kind = 'unique' FOR UPDATE SKIP LOCKED
    ), edge AS (
        SELECT d.parent, d.child, d.on_failure = 'cancel' AND g.state IN ('failed', 'cancelled') AS is_doomed
          FROM dependency AS d JOIN unnest(p_ids, p_states) AS g (id, state) ON g.id = d.parent
         WHERE d.parent = ANY (ARRAY(SELECT o.id FROM own AS o WHERE o.has_children)) AND NOT d.satisfied
         UNION
        SELECT e.parent, c.child, c.is_doomed FROM edge AS e, LATERAL (
               SELECT d.child, d.on_failure = 'cancel' AS is_doomed FROM dependency AS d
                WHERE d.parent = e.child AND NOT d.satisfied OFFSET 0) AS c
         WHERE e.is_doomed
    ), child AS MATERIALIZED (
        SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT e.child FROM edge AS e))
    ), free_child AS MATERIALIZED (
        SELECT j.id FROM job AS j WHERE j.id = ANY (ARRAY(SELECT c.id FROM child AS c))
         ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
    ), free AS MATERIALIZED (
        SELECT o.id FROM own AS o
         WHERE o.id NOT IN (SELECT k.job FROM key AS k EXCEPT SELECT f.job FROM free_key AS f)
           AND o.id NOT IN (SELECT e.parent FROM edge AS e JOIN child AS c ON c.id = e.child
                             WHERE e.child NOT IN (SELECT f.id FROM free_child AS f))
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
    v_settled := finish_jobs_v1(v_free.ids, v_free.tokens, v_free.states, v_free.reasons, v_free.failures,
                                NULL, v_free.errors, v_free.results, true, p_now);
    RETURN v_settled + reschedule_v1(v_free.ids, v_free.tokens, v_free.states, v_free.reasons, v_free.delays,
                                     v_free.failures, v_free.stuck, v_free.errors, p_now);
END
$$;
