-- Cancel jobs at once. The token of a running attempt is deleted with the row, and its worker gets a signal to stop it.
-- Returns cancelled, the final state that the job already had, or missing.
CREATE FUNCTION :"schema".cancel_v1(
    p_ids bigint[], p_reason text DEFAULT 'requested', p_now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, answer text)
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
    v_now     timestamptz := coalesce(p_now, statement_timestamp());
    v_done    bigint[] := '{}';
    v_answers text[];
    v_ids     bigint[];
    v_tokens  uuid[];
    v_leases  bigint[];
BEGIN
    LOOP
        SELECT coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.token), '{}'),
               coalesce(array_agg(l.lease), '{}')
          INTO v_ids, v_tokens, v_leases
          FROM (SELECT j.id, j.token, j.lease FROM job AS j
                 WHERE j.id = ANY (p_ids) ORDER BY j.id FOR UPDATE) AS l;
        PERFORM finish_jobs_v1(v_ids, v_tokens, array_fill('cancelled'::text, ARRAY[cardinality(v_ids)]),
                               array_fill(p_reason, ARRAY[cardinality(v_ids)]), NULL, NULL, NULL, NULL, false, v_now);
        INSERT INTO signal (lease, job, token, kind)
        SELECT r.lease, r.id, r.token, 'cancelled'
          FROM unnest(v_ids, v_tokens, v_leases) AS r (id, token, lease) WHERE r.lease IS NOT NULL;
        PERFORM pg_notify(current_schema() || '.signal', r.lease::text)
           FROM (SELECT DISTINCT lease FROM unnest(v_leases) AS x (lease) WHERE lease IS NOT NULL) AS r;
        v_done := v_done || v_ids;
        v_answers := ARRAY(
            SELECT CASE WHEN g.id = ANY (v_done) THEN 'cancelled' ELSE coalesce(a.state, 'missing') END
              FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
              LEFT JOIN find_jobs_v1(ARRAY(SELECT o FROM unnest(p_ids) AS o EXCEPT SELECT d FROM unnest(v_done) AS d)) AS a ON a.id = g.id
             ORDER BY g.ord);
        -- Repeat if one of them is live: a retry has moved it back from history in between.
        EXIT WHEN NOT v_answers && ARRAY['scheduled', 'ready', 'running', 'blocked'];
    END LOOP;
    RETURN QUERY SELECT a.id, a.answer FROM unnest(p_ids, v_answers) AS a (id, answer);
END
$$;
