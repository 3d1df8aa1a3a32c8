-- Run those of some jobs again that have failed, under their ids and with fresh attempts.
--
-- With a spacing they are scheduled in the given order: the first is due at p_start (or now, if that is past), each next
-- one so many seconds later. A caller that redrives many jobs in several calls passes the time after the last one.
--
-- Returns ready, scheduled or blocked (the job waits for its parents again) with the time at which the job is due. For a
-- job that was left, it returns held (its unique key belongs to another job now), the job's state, or missing.
CREATE FUNCTION :"schema".redrive_v1(
    p_ids bigint[], p_spacing double precision DEFAULT NULL, p_start timestamptz DEFAULT NULL,
    p_now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, answer text, due timestamptz)
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
    v_start timestamptz := greatest(p_start, coalesce(p_now, statement_timestamp()));
    v_dead  bigint[] := only_failed_v1(p_ids);
    v_held  bigint[];
BEGIN
    v_held := ARRAY(SELECT r.id FROM retry_v1(v_dead, p_now) AS r WHERE r.answer = 'held');
    IF p_spacing IS NOT NULL THEN
        -- No condition on "ready": it would lead the planner to the index of all ready jobs.
        UPDATE job AS j
           SET state = 'scheduled', ready_at = NULL, run_at = d.due,
               deadline = CASE WHEN j.deadline > d.due THEN j.deadline END
          FROM (SELECT g.id, v_start + make_interval(secs => (g.ord - 1) * p_spacing) AS due
                  FROM unnest(v_dead) WITH ORDINALITY AS g (id, ord)) AS d
         WHERE j.id = ANY (v_dead) AND j.id = d.id AND j.state <> 'blocked';
        PERFORM notify_due_v1(v_start) WHERE cardinality(v_dead) > cardinality(v_held);
    END IF;
    RETURN QUERY
    SELECT g.id, CASE WHEN g.id = ANY (v_held) THEN 'held' ELSE coalesce(a.state, 'missing') END,
           CASE WHEN g.id = ANY (v_dead) AND g.id <> ALL (v_held) THEN a.run_at END
      FROM unnest(p_ids) WITH ORDINALITY AS g (id, ord)
      LEFT JOIN find_jobs_v1(p_ids) AS a ON a.id = g.id
     ORDER BY g.ord;
END
$$;
