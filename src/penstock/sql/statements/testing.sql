-- name: advance_time
-- For tests: let time pass, by moving all stored times into the past.
-- $1 is how many seconds, or $2 is the time to reach; nothing happens if that is past already.
--
-- Afterwards each time is as far from the present as if somebody had waited. Leases stay, because running workers would
-- have renewed them. So do schedules, whose ticks are times of the real clock. History whose day passes is removed, as with
-- its partition. Running workers are notified, since due times and their cursors are not valid any more.
WITH span AS MATERIALIZED (
    -- In seconds, because a day in an interval may be an hour shorter or longer.
    SELECT make_interval(secs => greatest(0, coalesce(
               $1::double precision, extract(epoch FROM $2::timestamptz - statement_timestamp())))) AS past,
           (statement_timestamp() AT TIME ZONE 'UTC')::date AS today
), moved AS (
    UPDATE :"schema".job AS j
       SET created_at = j.created_at - s.past, run_at = j.run_at - s.past, ready_at = j.ready_at - s.past,
           attempted_at = j.attempted_at - s.past, deadline = j.deadline - s.past,
           stuck_since = j.stuck_since - s.past,
           errors = (SELECT jsonb_agg(e.error || jsonb_build_object(
                                'at', (e.error ->> 'at')::timestamptz - s.past,
                                'began', (e.error ->> 'began')::timestamptz - s.past) ORDER BY e.ord)
                       FROM jsonb_array_elements(j.errors) WITH ORDINALITY AS e (error, ord))
      FROM span AS s
    RETURNING j.state, j.queue, j.lane, j.priority, j.ready_at, j.run_at
), aged AS (
    SELECT h.id, h.expires_on, h.finished_at - s.past AS finished_at,
           h.expires_on - ((h.finished_at AT TIME ZONE 'UTC')::date
                           - ((h.finished_at - s.past) AT TIME ZONE 'UTC')::date) AS expires_on_now
      FROM :"schema".job_history AS h CROSS JOIN span AS s
), kept AS (
    UPDATE :"schema".job_history AS h
       SET created_at = h.created_at - s.past, run_at = h.run_at - s.past, ready_at = h.ready_at - s.past,
           attempted_at = h.attempted_at - s.past, deadline = h.deadline - s.past,
           finished_at = a.finished_at, expires_on = a.expires_on_now,
           errors = (SELECT jsonb_agg(e.error || jsonb_build_object(
                                'at', (e.error ->> 'at')::timestamptz - s.past,
                                'began', (e.error ->> 'began')::timestamptz - s.past) ORDER BY e.ord)
                       FROM jsonb_array_elements(h.errors) WITH ORDINALITY AS e (error, ord))
      FROM span AS s, aged AS a
     WHERE a.id = h.id AND a.expires_on = h.expires_on AND a.expires_on_now >= s.today
), gone AS (
    DELETE FROM :"schema".job_history AS h
     USING span AS s, aged AS a
     WHERE a.id = h.id AND a.expires_on = h.expires_on AND a.expires_on_now < s.today
), claims AS (
    UPDATE :"schema".unique_claim AS u
       SET expires_at = u.expires_at - s.past, until = u.until - s.past FROM span AS s
), reports AS (
    UPDATE :"schema".progress AS p SET updated_at = p.updated_at - s.past FROM span AS s
), queues AS (
    UPDATE :"schema".queue AS q
       SET paused_at = q.paused_at - s.past, updated_at = q.updated_at - s.past FROM span AS s
), lanes AS (
    UPDATE :"schema".lane_setting AS l
       SET paused_at = l.paused_at - s.past, updated_at = l.updated_at - s.past FROM span AS s
), limits AS (
    UPDATE :"schema".limit_setting AS c SET updated_at = c.updated_at - s.past FROM span AS s
), plans AS (
    UPDATE :"schema".plan AS p SET updated_at = p.updated_at - s.past FROM span AS s
), tenants AS (
    UPDATE :"schema".tenant_setting AS t SET updated_at = t.updated_at - s.past FROM span AS s
), buckets AS (
    UPDATE :"schema".bucket AS b
       SET filled_at = b.filled_at - s.past, closed_until = b.closed_until - s.past FROM span AS s
), batches AS (
    UPDATE :"schema".batch AS b
       SET created_at = b.created_at - s.past, closed_at = b.closed_at - s.past, folded_at = b.folded_at - s.past,
           finished_at = b.finished_at - s.past, cancelled_at = b.cancelled_at - s.past
      FROM span AS s
), workflows AS (
    UPDATE :"schema".workflow AS w SET created_at = w.created_at - s.past FROM span AS s
), deltas AS (
    UPDATE :"schema".batch_delta AS d SET created_at = d.created_at - s.past FROM span AS s
), steps AS (
    UPDATE :"schema".step AS t
       SET created_at = t.created_at - s.past,
           result = CASE t.kind WHEN 'sleep' THEN t.result || jsonb_build_object(
                                    'until', (t.result ->> 'until')::timestamptz - s.past)
                                ELSE t.result END
      FROM span AS s
), shared AS (
    UPDATE :"schema".step_cache AS c
       SET created_at = c.created_at - s.past, used_at = c.used_at - s.past, expires_at = c.expires_at - s.past
      FROM span AS s
), events AS (
    UPDATE :"schema".event AS e
       SET sent_at = e.sent_at - s.past, expires_at = e.expires_at - s.past FROM span AS s
), waits AS (
    UPDATE :"schema".event_wait AS w SET until = w.until - s.past FROM span AS s
), entries AS (
    UPDATE :"schema".audit AS a SET at = a.at - s.past FROM span AS s
), keys AS (
    UPDATE :"schema".api_key AS k
       SET created_at = k.created_at - s.past, expires_at = k.expires_at - s.past,
           last_used_at = k.last_used_at - s.past, revoked_at = k.revoked_at - s.past
      FROM span AS s
), people AS (
    UPDATE :"schema".person AS p
       SET created_at = p.created_at - s.past, disabled_at = p.disabled_at - s.past FROM span AS s
), logins AS (
    UPDATE :"schema".login AS l
       SET created_at = l.created_at - s.past, expires_at = l.expires_at - s.past, seen_at = l.seen_at - s.past
      FROM span AS s
), attempts AS (
    UPDATE :"schema".login_failure AS f SET last_at = f.last_at - s.past, until = f.until - s.past FROM span AS s
)
SELECT :"schema".notify_ready_v1(m.queue, m.lane, m.priority, min(m.ready_at))
  FROM moved AS m WHERE m.state = 'ready' GROUP BY m.queue, m.lane, m.priority
UNION ALL
SELECT :"schema".notify_due_v1(min(m.run_at)) FROM moved AS m WHERE m.state = 'scheduled' HAVING count(*) > 0;

-- name: make_room_to_advance
-- For tests: create the partitions that the history needs when advance_time lets the same time pass.
-- It waits for others that create partitions now.
WITH span AS (
    SELECT make_interval(secs => greatest(0, coalesce(
               $1::double precision, extract(epoch FROM $2::timestamptz - statement_timestamp())))) AS past
), days AS (
    SELECT DISTINCT h.expires_on - ((h.finished_at AT TIME ZONE 'UTC')::date
                                    - ((h.finished_at - s.past) AT TIME ZONE 'UTC')::date) AS day
      FROM :"schema".job_history AS h CROSS JOIN span AS s
)
SELECT :"schema".ensure_partitions_v1(p_also => ARRAY(
           SELECT d.day FROM days AS d WHERE d.day >= (statement_timestamp() AT TIME ZONE 'UTC')::date))
  FROM (SELECT pg_advisory_xact_lock(hashtextextended(current_database() || '.' || $3::text || '.partitions', 0)) OFFSET 0) AS o;

-- name: mark_worker_lost
-- For tests: take a running job from its attempt, as if its worker had been lost.
SELECT l.id, l.lost
  FROM :"schema".job AS j
 CROSS JOIN LATERAL :"schema".mark_worker_lost_v1(
       ARRAY[j.id], ARRAY[j.token], 'lost', 'WorkerLost',
       'A test took the attempt away from its worker.', true, statement_timestamp()) AS l
 WHERE j.id = $1 AND j.state = 'running';

-- name: cut_connections
-- For tests: terminate the connections with an application name on the server.
SELECT pg_terminate_backend(a.pid) AS cut
  FROM pg_stat_activity AS a
 WHERE a.datname = current_database() AND a.application_name = $1 AND a.pid <> pg_backend_pid();
