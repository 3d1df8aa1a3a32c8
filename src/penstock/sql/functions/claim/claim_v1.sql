-- Claim up to p_limit ready jobs of a queue for a lease: from each lane and priority in turn, up to its own take, from
-- its cursor on. Without takes, the first one is emptied before the second is read.
--
-- The cursor (ready_at, id) of a lane and priority is where the caller's last claim ended. It keeps a claim from walking
-- over index entries that are dead but not vacuumed yet, because an old snapshot still needs them: without cursors, each
-- claim gets slower as long as that snapshot exists.
-- id = ANY(ARRAY(...)) instead of a join: for a join with a CTE the planner may choose a nested loop.
CREATE FUNCTION :"schema".claim_v1(
    p_lease bigint, p_queue text, p_lanes text[], p_priorities smallint[],
    p_cursor_times timestamptz[], p_cursor_ids bigint[], p_takes integer[], p_limit integer,
    p_now timestamptz DEFAULT NULL, p_options jsonb DEFAULT NULL
) RETURNS TABLE (
    id bigint, token uuid, task text, args jsonb, args_version smallint, attempt integer,
    failures integer, max_attempts integer, losses smallint, timeout double precision,
    lane text, priority smallint, tenant text, ready_at timestamptz, created_at timestamptz, batch bigint,
    suspect boolean, extra jsonb
)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    v_now  timestamptz := coalesce(p_now, statement_timestamp());
    v_salt bytea := uuid_send(gen_random_uuid());
BEGIN
    IF p_options ->> 'commit' = 'async' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF NOT EXISTS (SELECT FROM lease AS l WHERE l.id = p_lease AND l.expires_at > v_now) THEN
        RAISE EXCEPTION 'Lease % has expired or was given up; claim with a new one.', p_lease
            USING ERRCODE = 'PS001';
    END IF;
    IF EXISTS (SELECT FROM queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL) THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE job AS j
       SET state = 'running', lease = p_lease, token = encode(substring(sha256(v_salt || int8send(j.id)) FOR 16), 'hex')::uuid,
           attempt = j.attempt + 1, attempted_at = v_now
     WHERE j.id = ANY (ARRAY(
           SELECT t.id
             FROM unnest(p_lanes, p_priorities, p_cursor_times, p_cursor_ids, p_takes)
               AS l (lane, priority, cursor_time, cursor_id, take)
            CROSS JOIN LATERAL (
                  SELECT c.id
                    FROM job AS c
                   WHERE c.state = 'ready' AND c.queue = p_queue
                     AND c.lane = l.lane AND c.priority = l.priority
                     AND (c.ready_at, c.id) >= (l.cursor_time, l.cursor_id)
                     AND (c.deadline IS NULL OR c.deadline > v_now)
                   ORDER BY c.ready_at, c.id
                   LIMIT l.take
                     FOR NO KEY UPDATE SKIP LOCKED) AS t
            LIMIT p_limit))
    RETURNING j.id, j.token, j.task, j.args, j.args_version, j.attempt,
              j.failures, j.max_attempts, j.losses, j.timeout,
              j.lane, j.priority, j.tenant, j.ready_at, j.created_at, j.batch, j.suspect,
              CASE WHEN coalesce(j.subject, j.requested_by, j.reason) IS NOT NULL
                     OR coalesce(j.meta, j.retry, j.errors) IS NOT NULL
                     OR coalesce(j.deadline, j.stuck_since) IS NOT NULL
                     OR j.tags IS NOT NULL OR j.run_at <> j.created_at
                     OR j.workflow IS NOT NULL OR j.unique_key IS NOT NULL
                   THEN jsonb_build_object(
                       'run_at', j.run_at, 'deadline', j.deadline, 'stuck_since', j.stuck_since,
                       'subject', j.subject, 'requested_by', j.requested_by, 'tags', j.tags,
                       'meta', j.meta, 'retry', j.retry, 'errors', j.errors, 'workflow', j.workflow,
                       'step', j.step, 'unique_key', j.unique_key)
              END;
END
$$;
