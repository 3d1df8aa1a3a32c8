-- Return those of some jobs that have failed, in the given order. They are locked, so that nobody else retries or
-- deletes them until the transaction ends.
CREATE FUNCTION :"schema".only_failed_v1(p_ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
DECLARE
    v_dates date[] := history_dates_v1(p_ids);
    v_dead  bigint[];
BEGIN
    -- In the order of ids, so that two calls with the same jobs do not deadlock. An optimization fence keeps the check
    -- of the state apart: next to the ids it would lead the planner to the index of all failed jobs.
    v_dead := ARRAY(
        WITH named AS MATERIALIZED (
            SELECT h.id, h.state FROM job_history AS h WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) ORDER BY h.id FOR UPDATE
        )
        SELECT n.id FROM named AS n WHERE n.state = 'failed');
    RETURN ARRAY(SELECT g.id FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
                  WHERE g.id = ANY (v_dead) ORDER BY g.ord);
END
$$;
