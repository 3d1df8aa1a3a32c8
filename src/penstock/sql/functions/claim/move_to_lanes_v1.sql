-- Return claimed jobs to their queue, each in another lane. It is fenced, and counts neither as failure nor as loss.
CREATE FUNCTION :"schema".move_to_lanes_v1(
    p_ids bigint[], p_tokens uuid[], p_lanes text[], p_now timestamptz DEFAULT NULL
) RETURNS integer
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
    WITH moved AS (
        UPDATE job AS j
           SET state = 'ready', lane = g.lane, lease = NULL, token = NULL, last_token = j.token,
               ready_at = coalesce(p_now, clock_timestamp())
          FROM unnest(p_ids, p_tokens, p_lanes) AS g (id, token, lane)
         WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
        RETURNING j.queue, j.lane, j.priority, j.ready_at
    ), told AS (
        SELECT notify_ready_v1(m.queue, m.lane, m.priority, min(m.ready_at))
          FROM moved AS m GROUP BY m.queue, m.lane, m.priority
    )
    SELECT ((SELECT count(*) FROM moved) + 0 * (SELECT count(*) FROM told))::integer;
$$;
