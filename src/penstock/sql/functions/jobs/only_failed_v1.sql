-- Of the jobs that are named, those that have failed, in the order given. They stay so until the transaction ends:
-- nobody else brings them back or erases them meanwhile.
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
    -- In the order of ids, so that two who name the same jobs do not wait for each other. The state is asked for
    -- behind a fence: beside the ids it would lead the planner to the index of all that have failed.
    v_dead := ARRAY(
        WITH named AS MATERIALIZED (
            SELECT h.id, h.state FROM job_history AS h WHERE h.id = ANY (p_ids) AND h.expires_on = ANY (v_dates) ORDER BY h.id FOR UPDATE
        )
        SELECT n.id FROM named AS n WHERE n.state = 'failed');
    RETURN ARRAY(SELECT g.id FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
                  WHERE g.id = ANY (v_dead) ORDER BY g.ord);
END
$$;
